    hash_1(); // <b> & "c"
	hash_2(); {
  	 hash_3(); }
        hash_4(); /* über */
hash_5();
    hash_6(); // <b> & "c"
	hash_7();
  	 hash_8(); // <b> & "c"
