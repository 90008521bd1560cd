log :: Print(LOG);
elementclass Logged { input -> log -> output }
Idle -> Logged -> Discard;
