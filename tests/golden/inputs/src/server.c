    server_1(); // <b> & "c"
	server_2(); {
  	 server_3(); }
        server_4(); /* über */
server_5();
    server_6(); // <b> & "c"
	server_7();
  	 server_8(); // <b> & "c"
        server_9(); {
server_10(); }
    server_11(); /* über */
	server_12();
  	 server_13(); // <b> & "c"
        server_14();
server_15(); // <b> & "c"
    server_16(); {
	server_17(); }
  	 server_18(); /* über */
        server_19();
server_20(); // <b> & "c"
    server_21();
	server_22(); // <b> & "c"
  	 server_23(); {
        server_24(); }
server_25(); /* über */
    server_26();
	server_27(); // <b> & "c"
  	 server_28();
        server_29(); // <b> & "c"
server_30(); {
    server_31(); }
	server_32(); /* über */
  	 server_33();
        server_34(); // <b> & "c"
server_35();
    server_36(); // <b> & "c"
	server_37(); {
  	 server_38(); }
        server_39(); /* über */
server_40();
    server_41(); // <b> & "c"
	server_42();
  	 server_43(); // <b> & "c"
        server_44(); {
server_45(); }
    server_46(); /* über */
	server_47();
  	 server_48(); // <b> & "c"
        server_49();
server_50(); // <b> & "c"
    server_51(); {
	server_52(); }
  	 server_53(); /* über */
        server_54();
server_55(); // <b> & "c"
    server_56();
	server_57(); // <b> & "c"
  	 server_58(); {
        server_59(); }
server_60(); /* über */
    server_61();
	server_62(); // <b> & "c"
  	 server_63();
        server_64(); // <b> & "c"
server_65(); {
    server_66(); }
	server_67(); /* über */
  	 server_68();
        server_69(); // <b> & "c"
server_70();
    server_71(); // <b> & "c"
	server_72(); {
  	 server_73(); }
        server_74(); /* über */
server_75();
    server_76(); // <b> & "c"
	server_77();
  	 server_78(); // <b> & "c"
        server_79(); {
server_80(); }
