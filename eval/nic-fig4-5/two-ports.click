// Two ports, each with half as many queues as the one would have; a core has one port or, with more queues than two, a part of both.
FromDevice($A, QUEUES $HALF, CORES $CORES0) -> b :: ToDevice($B);
FromDevice($C, QUEUES $HALF, CORES $CORES1) -> d :: ToDevice($D);
