// Minimal forwarding (RouteBricks, 4.2): what comes in goes out.
FromDevice($IN) -> out :: ToDevice($OUT);
