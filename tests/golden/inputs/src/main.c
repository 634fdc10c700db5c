    main_1(); // <b> & "c"
	main_2(); {
  	 main_3(); }
        main_4(); /* über */
main_5();
    main_6(); // <b> & "c"
	main_7();
  	 main_8(); // <b> & "c"
        main_9(); {
main_10(); }
    main_11(); /* über */
	main_12();
  	 main_13(); // <b> & "c"
        main_14();
main_15(); // <b> & "c"
    main_16(); {
	main_17(); }
  	 main_18(); /* über */
        main_19();
main_20(); // <b> & "c"
    main_21();
	main_22(); // <b> & "c"
  	 main_23(); {
        main_24(); }
main_25(); /* über */
    main_26();
	main_27(); // <b> & "c"
  	 main_28();
        main_29(); // <b> & "c"
main_30(); {
    main_31(); }
	main_32(); /* über */
  	 main_33();
        main_34(); // <b> & "c"
main_35();
    main_36(); // <b> & "c"
	main_37(); {
  	 main_38(); }
        main_39(); /* über */
main_40();
