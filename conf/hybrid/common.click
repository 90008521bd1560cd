// A wire between two ports, but for DNS: that goes by the link of its side to the isolated router, and comes back
// by the link of the other side.

define($DEV0 eth0, $DEV1 eth1);

elementclass DNS {
  // IPv4, without a tag or with a priority tag (VLAN 0), which stays.
  input -> ip :: Classifier(12/0800, 12/8100 14/0000%0fff 16/0800, -);
  ip[0] -> MarkIPHeader(14) -> dns :: IPClassifier(udp port 53, -);
  dns[0] -> [0] output;
  dns[1] -> [1] output;
  ip[1] -> MarkIPHeader(18) -> dns;
  ip[2] -> [1] output;
}

out0 :: ToDevice($DEV0);
out1 :: ToDevice($DEV1);

FromDevice($DEV0, PROMISC true) -> d0 :: DNS;
d0[0] -> ToDevice(near);
d0[1] -> out1;
FromDevice(near) -> out0;

FromDevice($DEV1, PROMISC true) -> d1 :: DNS;
d1[0] -> ToDevice(far);
d1[1] -> out0;
FromDevice(far) -> out1;
