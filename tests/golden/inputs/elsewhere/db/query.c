    query_1(); // <b> & "c"
	query_2(); {
  	 query_3(); }
        query_4(); /* über */
query_5();
    query_6(); // <b> & "c"
	query_7();
  	 query_8(); // <b> & "c"
        query_9(); {
query_10(); }
    query_11(); /* über */
	query_12();
  	 query_13(); // <b> & "c"
        query_14();
query_15(); // <b> & "c"
    query_16(); {
	query_17(); }
  	 query_18(); /* über */
        query_19();
query_20(); // <b> & "c"
    query_21();
	query_22(); // <b> & "c"
  	 query_23(); {
        query_24(); }
query_25(); /* über */
    query_26();
	query_27(); // <b> & "c"
  	 query_28();
        query_29(); // <b> & "c"
query_30(); {
    query_31(); }
	query_32(); /* über */
  	 query_33();
        query_34(); // <b> & "c"
query_35();
    query_36(); // <b> & "c"
	query_37(); {
  	 query_38(); }
        query_39(); /* über */
query_40();
    query_41(); // <b> & "c"
	query_42();
  	 query_43(); // <b> & "c"
        query_44(); {
query_45(); }
    query_46(); /* über */
	query_47();
  	 query_48(); // <b> & "c"
        query_49();
query_50(); // <b> & "c"
    query_51(); {
	query_52(); }
  	 query_53(); /* über */
        query_54();
query_55(); // <b> & "c"
    query_56();
	query_57(); // <b> & "c"
  	 query_58(); {
        query_59(); }
query_60(); /* über */
    query_61();
	query_62(); // <b> & "c"
  	 query_63();
        query_64(); // <b> & "c"
query_65(); {
    query_66(); }
	query_67(); /* über */
  	 query_68();
        query_69(); // <b> & "c"
query_70();
    query_71(); // <b> & "c"
	query_72(); {
  	 query_73(); }
        query_74(); /* über */
query_75();
    query_76(); // <b> & "c"
	query_77();
  	 query_78(); // <b> & "c"
        query_79(); {
query_80(); }
    query_81(); /* über */
	query_82();
  	 query_83(); // <b> & "c"
        query_84();
query_85(); // <b> & "c"
    query_86(); {
	query_87(); }
  	 query_88(); /* über */
        query_89();
query_90(); // <b> & "c"
    query_91();
	query_92(); // <b> & "c"
  	 query_93(); {
        query_94(); }
query_95(); /* über */
    query_96();
	query_97(); // <b> & "c"
  	 query_98();
        query_99(); // <b> & "c"
query_100(); {
    query_101(); }
	query_102(); /* über */
  	 query_103();
        query_104(); // <b> & "c"
query_105();
    query_106(); // <b> & "c"
	query_107(); {
  	 query_108(); }
        query_109(); /* über */
query_110();
    query_111(); // <b> & "c"
	query_112();
  	 query_113(); // <b> & "c"
        query_114(); {
query_115(); }
    query_116(); /* über */
	query_117();
  	 query_118(); // <b> & "c"
        query_119();
query_120(); // <b> & "c"
    query_121(); {
	query_122(); }
  	 query_123(); /* über */
        query_124();
query_125(); // <b> & "c"
    query_126();
	query_127(); // <b> & "c"
  	 query_128(); {
        query_129(); }
query_130(); /* über */
    query_131();
	query_132(); // <b> & "c"
  	 query_133();
        query_134(); // <b> & "c"
query_135(); {
    query_136(); }
	query_137(); /* über */
  	 query_138();
        query_139(); // <b> & "c"
query_140();
    query_141(); // <b> & "c"
	query_142(); {
  	 query_143(); }
        query_144(); /* über */
query_145();
    query_146(); // <b> & "c"
	query_147();
  	 query_148(); // <b> & "c"
        query_149(); {
query_150(); }
    query_151(); /* über */
	query_152();
  	 query_153(); // <b> & "c"
        query_154();
query_155(); // <b> & "c"
    query_156(); {
	query_157(); }
  	 query_158(); /* über */
        query_159();
query_160(); // <b> & "c"
    query_161();
	query_162(); // <b> & "c"
  	 query_163(); {
        query_164(); }
query_165(); /* über */
    query_166();
	query_167(); // <b> & "c"
  	 query_168();
        query_169(); // <b> & "c"
query_170(); {
    query_171(); }
	query_172(); /* über */
  	 query_173();
        query_174(); // <b> & "c"
query_175();
    query_176(); // <b> & "c"
	query_177(); {
  	 query_178(); }
        query_179(); /* über */
query_180();
    query_181(); // <b> & "c"
	query_182();
  	 query_183(); // <b> & "c"
        query_184(); {
query_185(); }
    query_186(); /* über */
	query_187();
  	 query_188(); // <b> & "c"
        query_189();
query_190(); // <b> & "c"
    query_191(); {
	query_192(); }
  	 query_193(); /* über */
        query_194();
query_195(); // <b> & "c"
    query_196();
	query_197(); // <b> & "c"
  	 query_198(); {
        query_199(); }
query_200(); /* über */
    query_201();
	query_202(); // <b> & "c"
  	 query_203();
        query_204(); // <b> & "c"
query_205(); {
    query_206(); }
	query_207(); /* über */
  	 query_208();
        query_209(); // <b> & "c"
query_210();
    query_211(); // <b> & "c"
	query_212(); {
  	 query_213(); }
        query_214(); /* über */
query_215();
    query_216(); // <b> & "c"
	query_217();
  	 query_218(); // <b> & "c"
        query_219(); {
query_220(); }
    query_221(); /* über */
	query_222();
  	 query_223(); // <b> & "c"
        query_224();
query_225(); // <b> & "c"
    query_226(); {
	query_227(); }
  	 query_228(); /* über */
        query_229();
query_230(); // <b> & "c"
    query_231();
	query_232(); // <b> & "c"
  	 query_233(); {
        query_234(); }
query_235(); /* über */
    query_236();
	query_237(); // <b> & "c"
  	 query_238();
        query_239(); // <b> & "c"
query_240(); {
    query_241(); }
	query_242(); /* über */
  	 query_243();
        query_244(); // <b> & "c"
query_245();
    query_246(); // <b> & "c"
	query_247(); {
  	 query_248(); }
        query_249(); /* über */
query_250();
    query_251(); // <b> & "c"
	query_252();
  	 query_253(); // <b> & "c"
        query_254(); {
query_255(); }
    query_256(); /* über */
	query_257();
  	 query_258(); // <b> & "c"
        query_259();
query_260(); // <b> & "c"
    query_261(); {
	query_262(); }
  	 query_263(); /* über */
        query_264();
query_265(); // <b> & "c"
    query_266();
	query_267(); // <b> & "c"
  	 query_268(); {
        query_269(); }
query_270(); /* über */
    query_271();
	query_272(); // <b> & "c"
  	 query_273();
        query_274(); // <b> & "c"
query_275(); {
    query_276(); }
	query_277(); /* über */
  	 query_278();
        query_279(); // <b> & "c"
query_280();
    query_281(); // <b> & "c"
	query_282(); {
  	 query_283(); }
        query_284(); /* über */
query_285();
    query_286(); // <b> & "c"
	query_287();
  	 query_288(); // <b> & "c"
        query_289(); {
query_290(); }
    query_291(); /* über */
	query_292();
  	 query_293(); // <b> & "c"
        query_294();
query_295(); // <b> & "c"
    query_296(); {
	query_297(); }
  	 query_298(); /* über */
        query_299();
query_300(); // <b> & "c"
