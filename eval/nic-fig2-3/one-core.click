// One core receives and sends.
FromDevice($A, CORES 0) -> ToDevice($B);
