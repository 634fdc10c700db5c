    handler_1(); // <b> & "c"
	handler_2(); {
  	 handler_3(); }
        handler_4(); /* über */
handler_5();
    handler_6(); // <b> & "c"
	handler_7();
  	 handler_8(); // <b> & "c"
        handler_9(); {
handler_10(); }
    handler_11(); /* über */
	handler_12();
  	 handler_13(); // <b> & "c"
        handler_14();
handler_15(); // <b> & "c"
    handler_16(); {
	handler_17(); }
  	 handler_18(); /* über */
        handler_19();
handler_20(); // <b> & "c"
    handler_21();
	handler_22(); // <b> & "c"
  	 handler_23(); {
        handler_24(); }
handler_25(); /* über */
    handler_26();
	handler_27(); // <b> & "c"
  	 handler_28();
        handler_29(); // <b> & "c"
handler_30(); {
    handler_31(); }
	handler_32(); /* über */
  	 handler_33();
        handler_34(); // <b> & "c"
handler_35();
    handler_36(); // <b> & "c"
	handler_37(); {
  	 handler_38(); }
        handler_39(); /* über */
handler_40();
    handler_41(); // <b> & "c"
	handler_42();
  	 handler_43(); // <b> & "c"
        handler_44(); {
handler_45(); }
    handler_46(); /* über */
	handler_47();
  	 handler_48(); // <b> & "c"
        handler_49();
handler_50(); // <b> & "c"
    handler_51(); {
	handler_52(); }
  	 handler_53(); /* über */
        handler_54();
handler_55(); // <b> & "c"
    handler_56();
	handler_57(); // <b> & "c"
  	 handler_58(); {
        handler_59(); }
handler_60(); /* über */
    handler_61();
	handler_62(); // <b> & "c"
  	 handler_63();
        handler_64(); // <b> & "c"
handler_65(); {
    handler_66(); }
	handler_67(); /* über */
  	 handler_68();
        handler_69(); // <b> & "c"
handler_70();
    handler_71(); // <b> & "c"
	handler_72(); {
  	 handler_73(); }
        handler_74(); /* über */
handler_75();
    handler_76(); // <b> & "c"
	handler_77();
  	 handler_78(); // <b> & "c"
        handler_79(); {
handler_80(); }
    handler_81(); /* über */
	handler_82();
  	 handler_83(); // <b> & "c"
        handler_84();
handler_85(); // <b> & "c"
    handler_86(); {
	handler_87(); }
  	 handler_88(); /* über */
        handler_89();
handler_90(); // <b> & "c"
    handler_91();
	handler_92(); // <b> & "c"
  	 handler_93(); {
        handler_94(); }
handler_95(); /* über */
    handler_96();
	handler_97(); // <b> & "c"
  	 handler_98();
        handler_99(); // <b> & "c"
handler_100(); {
    handler_101(); }
	handler_102(); /* über */
  	 handler_103();
        handler_104(); // <b> & "c"
handler_105();
    handler_106(); // <b> & "c"
	handler_107(); {
  	 handler_108(); }
        handler_109(); /* über */
handler_110();
    handler_111(); // <b> & "c"
	handler_112();
  	 handler_113(); // <b> & "c"
        handler_114(); {
handler_115(); }
    handler_116(); /* über */
	handler_117();
  	 handler_118(); // <b> & "c"
        handler_119();
handler_120(); // <b> & "c"