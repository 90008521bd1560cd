-> Null;
Idle -> ;
