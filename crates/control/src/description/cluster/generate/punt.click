// Packets of an external port for the kernel of the server that leads, whose routing daemons get them, and the frames
// that this kernel sends by the port.
//   in 0:  IPv4 packets to the router itself
//   in 1:  IPv6 packets to the router itself, and answers to questions for neighbours
//   in 2:  ARP replies
//   out 0: frames to send
elementclass Punt { $device, $name |
    // Each kind of packets has a rate: no flood starves the daemons, or the thread that carries frames to the leader.
    punt :: ControlPlanePolicer(BFD 1000 200, OSPF 1000 200, BGP 5000 1000, TUNNEL 1000 200, OTHER 2000 400)
        -> ToDevice(punt:$name);
    input[0] -> EtherEncap(0x0800, $device:eth, $device:eth) -> punt;
    input[1] -> EtherEncap(0x86dd, $device:eth, $device:eth) -> punt;
    input[2] -> punt;
    FromDevice(punt:$name, QUEUES 1) -> output;
}
