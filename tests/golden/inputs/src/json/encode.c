    encode_1(); // <b> & "c"
	encode_2(); {
  	 encode_3(); }
        encode_4(); /* über */
encode_5();
    encode_6(); // <b> & "c"
	encode_7();
  	 encode_8(); // <b> & "c"
        encode_9(); {
encode_10(); }
    encode_11(); /* über */
	encode_12();
  	 encode_13(); // <b> & "c"
        encode_14();
encode_15(); // <b> & "c"
    encode_16(); {
	encode_17(); }
  	 encode_18(); /* über */
        encode_19();
encode_20(); // <b> & "c"
    encode_21();
	encode_22(); // <b> & "c"
  	 encode_23(); {
        encode_24(); }
encode_25(); /* über */
    encode_26();
	encode_27(); // <b> & "c"
  	 encode_28();
        encode_29(); // <b> & "c"
encode_30(); {
    encode_31(); }
	encode_32(); /* über */
  	 encode_33();
        encode_34(); // <b> & "c"
encode_35();
    encode_36(); // <b> & "c"
	encode_37(); {
  	 encode_38(); }
        encode_39(); /* über */
encode_40();
    encode_41(); // <b> & "c"
	encode_42();
  	 encode_43(); // <b> & "c"
        encode_44(); {
encode_45(); }
    encode_46(); /* über */
	encode_47();
  	 encode_48(); // <b> & "c"
        encode_49();
encode_50(); // <b> & "c"
    encode_51(); {
	encode_52(); }
  	 encode_53(); /* über */
        encode_54();
encode_55(); // <b> & "c"
    encode_56();
	encode_57(); // <b> & "c"
  	 encode_58(); {
        encode_59(); }
encode_60(); /* über */
    encode_61();
	encode_62(); // <b> & "c"
  	 encode_63();
        encode_64(); // <b> & "c"
encode_65(); {
    encode_66(); }
	encode_67(); /* über */
  	 encode_68();
        encode_69(); // <b> & "c"
encode_70();
    encode_71(); // <b> & "c"
	encode_72(); {
  	 encode_73(); }
        encode_74(); /* über */
encode_75();
    encode_76(); // <b> & "c"
	encode_77();
  	 encode_78(); // <b> & "c"
        encode_79(); {
encode_80(); }
    encode_81(); /* über */
	encode_82();
  	 encode_83(); // <b> & "c"
        encode_84();
encode_85(); // <b> & "c"
    encode_86(); {
	encode_87(); }
  	 encode_88(); /* über */
        encode_89();
encode_90(); // <b> & "c"
