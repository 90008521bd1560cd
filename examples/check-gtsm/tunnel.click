// A hundred frames leave by one port in UDP datagrams, and come back by another port of this machine:
//     cargo run -- click tunnel.click -h received.count
define($A 127.0.0.1:7001, $B 127.0.0.1:7002)
InfiniteSource(LIMIT 100, STOP false) -> UDPIPEncap(10.0.0.1, 9, 10.0.0.2, 9)
    -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Queue(100) -> ToDevice("udp:$A,$B");
FromDevice("udp:$B,$A") -> received :: Counter(COUNT_CALL 100 stop) -> Discard;
