"""Classes: ports, packets, arguments and handlers of each, by Click's manual, and the exceptions of single classes."""

from dataclasses import dataclass

# Class | ports in, out, processing, packets | arguments: NAME:kind required, [NAME:kind] optional by place, NAME=kind
# by keyword, kind* any number, kind+ one or more | handlers that take values: name:kind
CLASSES = """
ARPQuerier | 2 1-2 h arpq | IP:querier ETH:unicast_eth CAPACITY=roomy ENTRY_CAPACITY=roomy ENTRY_PACKET_CAPACITY=roomy TIMEOUT=long POLL_TIMEOUT=poll BROADCAST_POLL=bool | ipaddr:querier
ARPResponder | 1 1-2 a unicast | arp* | lookup?:ip
ARPTable | 0 0 a raw | CAPACITY=roomy ENTRY_CAPACITY=roomy ENTRY_PACKET_CAPACITY=pos CAPACITY_SLIM_FACTOR=pos | insert:station clear:none
AdjustTimestamp | 1 1 a any | TIME:dur FIRST=bool ALL=bool | time:dur
AggregateCounter | 1 1-2 a ipa | BYTES=bool IP_BYTES=bool MULTIPACKET=bool EXTRA_LENGTH=bool AGGREGATE_STOP=small AGGREGATE_FREEZE=small AGGREGATE_CALL=call COUNT_STOP=small COUNT_FREEZE=small COUNT_CALL=call BANNER=str | active:bool freeze:bool stop:none reset:none write_text_file:stdout aggregate_call:call count_call:call
AggregateFilter | 1 1-3 h ipa | aggregates+ |
AggregateFirst | 1 1-2 a ipa | |
AggregateIP | 1 1-2 a ip | FIELD:agg_field UNSHIFT_IP_ADDR=bool |
AggregateIPAddrPair | 1 1 a ip | | clear:none
AggregateIPFlows | 1 1-2 h nat | TCP_TIMEOUT=whole TCP_DONE_TIMEOUT=whole UDP_TIMEOUT!whole FRAGMENT_TIMEOUT=whole | clear:none
AggregateLast | 1 1 a ipa | STOP_AFTER_CLEAR=bool | clear:none
AggregateLength | 1 1 a ip | IP=bool |
AggregatePacketCounter | 1-2 1-2 a ipa | ANNO=anno | clear:none received?:small undelivered?:small
AggregatePaint | 1 1 a ip | [BITS:pos] INCREMENTAL=bool |
Align | 1 1 a any | MODULUS:mod OFFSET:natural |
AverageCounter | 1 1 a any | [IGNORE:small] | reset:none
BandwidthMeter | 1 2-3 h any | bw+ |
BandwidthRatedSplitter | 1 2 h any | RATE:bw100 BURST_DURATION=dur BURST_BYTES=pos |
BandwidthRatedUnqueue | 1 1 l/h any | RATE:bw100 BURST_DURATION=dur BURST_BYTES=pos |
BandwidthShaper | 1 1 l any | RATE:bw100 | rate:bw100
Burster | 1 1 l/h any | INTERVAL:dur [BURST:some] | interval:dur
Bypass | 1-2 1-2 h any | [ACTIVE:bool] | active:bool
CheckICMPHeader | 1 1-2 a icmp | VERBOSE=bool DETAILS=bool |
CheckIP6Header | 1 1-2 a ip6 | [BADADDRS:ips6] [OFFSET:zero] |
CheckIPHeader | 1 1-2 a ip | [OFFSET:ip_at] INTERFACES=interfaces BADSRC=ips GOODDST=ips CHECKSUM=bool VERBOSE=bool DETAILS=bool |
CheckIPHeader2 | 1 1-2 a ip | [OFFSET:ip_at] INTERFACES=interfaces BADSRC=ips GOODDST=ips CHECKSUM=bool VERBOSE=bool DETAILS=bool |
CheckLength | 1 1-2 a any | LENGTH:small | length:small
CheckPaint | 1 1-2 a any | COLOR:u8 [ANNO:anno] | color:u8
CheckTCPHeader | 1 1-2 a tcp | VERBOSE=bool DETAILS=bool |
CheckUDPHeader | 1 1-2 a udp | VERBOSE=bool DETAILS=bool |
Classifier | 1 1-3 h ether | class_pattern+ |
Clipboard | 2-4 2-4 h any | range+ |
CoDel | 1 1 l any | TARGET=ms INTERVAL=ms |
Counter | 1 1 a any | COUNT_CALL=handler BYTE_COUNT_CALL=handler | reset:none reset_counts:none count_call:handler byte_count_call:handler
DRRSched | 2-3 1 l any | [QUANTUM:pos] |
DecIP6HLIM | 1 1-2 a ip6 | |
DecIPTTL | 1 1-2 a ip | ACTIVE=bool MULTICAST=bool | active:bool
DelayShaper | 1 1 l any | DELAY:dur | delay:dur
DelayUnqueue | 1 1 l/h any | DELAY:dur | delay:dur
DirectIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip flush:none
Discard | 1 0 l any | ACTIVE=bool BURST=pos | reset_counts:none
DropBroadcasts | 1 1 a any | |
EnsureEther | 1 1-2 a ether | [ETHERTYPE:etype] [SRC:eth] [DST:eth] |
EtherEncap | 1 1 a any | ETHERTYPE:etype SRC:eth DST:eth | src:eth dst:eth ethertype:etype
EtherMirror | 1 1 a ether | |
EtherRewrite | 1 1 a ether | SRC:eth DST:eth | src:eth dst:eth
EtherSwitch | 2 2 h stations | TIMEOUT=long |
EtherVLANEncap | 1 1 a any | ETHERTYPE:etype SRC:eth DST:eth VLAN_TCI:vlan [VLAN_PCP:pcp] VLAN_ID=vlan NATIVE_VLAN=small | src:eth dst:eth ethertype:etype
FixIPSrc | 1 1 a ip | IPADDR:ip |
FrontDropQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
GetEtherAddress | 1 1 a ether | ANNO:anno OFFSET:small |
GetIP6Address | 1 1 a ip6 | OFFSET:addr6_at |
GetIPAddress | 1 1 a ip | OFFSET:addr_at [ANNO:anno] IP=ipword |
HostEtherFilter | 1 1-2 a ether | ETHER:eth [DROP_OWN:bool] [DROP_OTHER:bool] OFFSET=stripped |
Hub | 2-3 2-3 h any | |
ICMP6Error | 1 1 a hosts6 | SRC:host6 TYPE:icmp_type6 CODE:natural |
ICMPError | 1 1 a ip | SRC:ip TYPE:icmp_type [CODE:icmp_code] BADADDRS=ips MTU=message PMTU=mtu |
ICMPIPEncap | 1 1 a any | SRC:ip DST:ip TYPE:icmp_type [CODE:icmp_code] IDENTIFIER=u16 |
ICMPPingEncap | 1 1 a any | SRC:ip DST:ip IDENTIFIER=u16 |
ICMPPingResponder | 1 1-2 a ping | |
ICMPPingRewriter | 1-2 1-2 h nat | addr_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
ICMPPingSource | 0-1 1 h icmp | SRC:ip DST:ip INTERVAL=lasting IDENTIFIER=alike LIMIT=pos DATA=text ACTIVE=bool STOP=bool VERBOSE=bool | active:bool src:bare_ip dst:bare_ip reset_counts:none
IP6Fragmenter | 1 1 h ip6 | MTU:mtu6 |
IPAddrPairRewriter | 1-2 1-2 h nat | addr_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some |
IPAddrRewriter | 1-2 1-2 h nat | source_spec+ TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some |
IPClassifier | 1 1-3 h ip | pattern+ | pattern0:pattern
IPEncap | 1 1 a any | PROTO:proto SRC:ip DST:ipanno TTL=u8 DSCP=byte ECT=ect CE=bool TOS=byte DF=bool | src:ip dst:ip
IPFilter | 1 1-3 h ip | rule+ |
IPFragmenter | 1 1-2 h ip | MTU:mtu VERBOSE=bool HEADROOM=sized |
IPGWOptions | 1 1-2 a ip | MYADDR:ip OTHERADDRS=ips |
IPInputCombo | 1 1 a ether | COLOR:byte INTERFACES=interfaces GOODDST=ips |
IPMirror | 1 1 a ip | [DST_ANNO:bool] |
IPOutputCombo | 1 5 h ip | COLOR:byte IPADDR:ip MTU:mtu |
IPPrint | 1 1 a ip | [LABEL:str] CONTENTS=contents PAYLOAD=payload MAXLENGTH=small ID=bool TTL=bool TOS=bool LENGTH=bool TIMESTAMP=bool AGGREGATE=bool PAINT=bool SWAP=bool ACTIVE=bool | active:bool
IPReassembler | 1 1 h ipfrag | |
IPRewriter | 1-2 1-2 h nat | spec+ TCP_TIMEOUT=secs TCP_DONE_TIMEOUT=secs TCP_NODATA_TIMEOUT=secs TCP_GUARANTEE=secs UDP_TIMEOUT=secs UDP_STREAMING_TIMEOUT=secs UDP_GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
Idle | 0-2 0-2 a any | |
InfiniteSource | 0 1 a any | [DATA:text] LIMIT!lim BURST=some ACTIVE=bool LENGTH=sized STOP=bool TIMESTAMP=bool END_CALL=end_call | length:sized burst:some active:bool
InputSwitch | 2-3 1 h any | [INPUT:port_number] | switch:port_number
LinearIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip
LinkUnqueue | 1 1 l/h any | LATENCY:dur BANDWIDTH:bw100 | reset:none
LookupIP6Route | 1 1-3 h routed6 | route6* |
MSQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none
MarkIP6Header | 1 1 a ip6 | [OFFSET:zero] |
MarkIPCE | 1 1-2 a ip | [FORCE:bool] |
MarkIPHeader | 1 1 a ip | [OFFSET:zero] |
MarkMACHeader | 1 1 a ether | [OFFSET:zero] [LENGTH:zero] |
Meter | 1 2-3 h any | meter+ |
MixedQueue | 1-2 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
NotifierQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
Null | 1 1 a any | |
Pad | 1 1 a any | [LENGTH:small] ZERO=yes |
Paint | 1 1 a any | COLOR:u8 [ANNO:anno] | color:u8
PaintSwitch | 1 1-3 h any | [ANNO:anno] |
PaintTee | 1 2 h any | COLOR:u8 [ANNO:anno] | color:u8
Print | 1 1 a any | [LABEL:str] [MAXLENGTH:int] CONTENTS=contents TIMESTAMP=bool PRINTANNO=bool ACTIVE=bool | active:bool
PrioSched | 2-3 1 l any | |
PullNull | 1 1 l any | |
PullSwitch | 2-3 1 l any | [INPUT:port_number] | switch:port_number
PushNull | 1 1 h any | |
Queue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
QuickNoteQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
FullNoteQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
RED | 1 1 l any | MIN_THRESH:pos MAX_THRESH:pos MAX_P:share STABILITY=pos GENTLE=bool | min_thresh:pos max_thresh:pos max_p:share
RadixIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip
RandomSample | 1 1-2 a any | [SAMPLE:ratio01] DROP=ratio01 ACTIVE=bool | sampling_prob:ratio01 drop_prob:ratio01 active:bool
RangeIPLookup | 1 1-3 h ip | route* | add:route set:route remove:route ctrl:rctrl lookup?:ip flush:none
RatedSource | 0 1 h any | [DATA:text] [RATE:slow] [LIMIT:lim] [ACTIVE:bool] LENGTH=sized STOP=bool |
RatedSplitter | 1 2 h any | RATE:rate BURST_DURATION=dur BURST_SIZE=pos |
RatedUnqueue | 1 1 l/h any | RATE:rate BURST_DURATION=dur BURST_SIZE=pos |
Resize | 1 1 a any | [HEAD:down] [TAIL:down] | head:down tail:down
RoundRobinSched | 2-3 1 l any | |
RoundRobinSwitch | 1 1-3 h any | |
SetEtherAddress | 1 1 a any | ADDR:eth ANNO:anno |
SetIP6Address | 1 1 a any | IP:ip6 |
SetIPAddress | 1 1 a any | IPADDR:ip ANNO=anno | addr:ip
SetIPChecksum | 1 1 a ip | |
SetIPDSCP | 1 1 a ip | DSCP:u8 |
SetIPECN | 1 1 a ip | ECN:ecn |
SetTCPChecksum | 1 1-2 a onlytcp | |
SetTimestamp | 1 1 a any | [TIMESTAMP:time] FIRST=bool |
SetTimestampDelta | 1 1 a any | [TYPE:delta] | reset:none
SetUDPChecksum | 1 1-2 a onlyudp | |
SetVLANAnno | 1 1 a any | VLAN_TCI:vlan [VLAN_PCP:pcp] VLAN_ID=vlan | vlan_id:vlan vlan_pcp:pcp
Shaper | 1 1 l any | RATE:brisk | rate:brisk
SimplePrioSched | 2-3 1 l any | |
SimplePullSwitch | 2-3 1 l any | [INPUT:port_number] | switch:port_number
SimpleQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
RoundRobinIPMapper | 0 0 a raw | mapspec+ |
StaticIPLookup | 1 1-3 h ip | route* | lookup?:ip
StaticPullSwitch | 2-3 1 l any | INPUT:port_number |
StaticSwitch | 1 1-3 h any | OUTPUT:port_number |
StoreEtherAddress | 1 1-2 a ether | ADDR:eth OFFSET:ethoff | addr:eth
StoreIPAddress | 1 1-2 a ip | [ADDR:ip] OFFSET:ipoff |
StrideSched | 2-3 1 l any | pos+ | tickets0:pos tickets1:pos
Strip | 1 1 a any | LENGTH:stripped |
StripEtherVLANHeader | 1 1 a ether | [NATIVE_VLAN:small] |
StripIPHeader | 1 1 a ip | |
StripToNetworkHeader | 1 1 a ip | |
Suppressor | 2 2 a any | | active0:bool active1:bool reset:none
Switch | 1 1-3 h any | [OUTPUT:port_number] | switch:port_number
TCPRewriter | 1-2 1-2 h nat | spec+ TCP_TIMEOUT=secs TCP_DONE_TIMEOUT=secs TCP_NODATA_TIMEOUT=secs TCP_GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool |
Tee | 1 1-3 h any | [N:pos] |
ThreadSafeQueue | 1 1 h/l any | [CAPACITY:pos] | capacity:pos reset:none reset_counts:none
TimeFilter | 1 1-2 a any | START=time END=end INTERVAL=lasting STOP=bool END_CALL=end_call | extend_interval:dur
TimeRange | 1 1 a any | SIMPLE=bool | reset:none
TimeSortedSched | 1-3 1-2 l any | BUFFER=pos |
TimedSink | 1 0 l any | [INTERVAL:lasting] | interval:dur
TimedSource | 0 1 h any | [INTERVAL:lasting] [DATA:text] LIMIT=lim HEADROOM=small STOP=bool |
TimedUnqueue | 1 1 l/h any | INTERVAL:dur [BURST:pos] | interval:dur
TimestampAccum | 1 1 a any | | reset_counts:none
ToDump | 1 0-1 a any | FILENAME:stdout SNAPLEN=small ENCAP=encap EXTRA_LENGTH=bool UNBUFFERED=bool NANO!no | reset_counts:none
ToIPSummaryDump | 1 0-1 h ip | FILENAME:stdout FIELDS!fields CONTENTS=fields HEADER=bool VERBOSE=bool BANNER=str MULTIPACKET=bool BAD_PACKETS=bool CAREFUL_TRUNC=bool EXTRA_LENGTH=bool | flush:none
Truncate | 1 1 a any | LENGTH:small EXTRA_LENGTH=bool |
UDPIPEncap | 1 1 a any | SRC:ip SPORT:port DST:ipanno DPORT:port [CHECKSUM:bool] | src:ip sport:port dst:ip dport:port
UDPRewriter | 1-2 1-2 h nat | spec+ TIMEOUT=secs STREAMING_TIMEOUT=secs GUARANTEE=secs REAP_INTERVAL=secs MAPPING_CAPACITY=some DST_ANNO=bool UDP_TIMEOUT=secs |
Unqueue | 1 1 l/h any | ACTIVE=bool LIMIT=lim BURST=lim | reset:none active:bool limit:lim burst:lim
Unstrip | 1 1 a any | LENGTH:stripped |
UnstripIPHeader | 1 1 a ip | |
VLANDecap | 1 1 a ether | ANNO=bool ETHERTYPE=etype |
VLANEncap | 1 1 a ether | [VLAN_TCI:vlan] [VLAN_PCP:pcp] VLAN_ID=vlan NATIVE_VLAN=small ETHERTYPE=etype | vlan_tci:vlan vlan_id:vlan vlan_pcp:pcp native_vlan:small
AddressInfo | 0 0 a raw | addrinfo* |
PortInfo | 0 0 a raw | portinfo* |
IPRewriterPatterns | 0 0 a raw | patdef* |
ScheduleInfo | 0 0 a raw | share_of* |
StaticThreadSched | 0 0 a raw | worker* |
RandomSeed | 0 0 a raw | [SEED:u32] | seed:u32
ARPPrint | 1 1 a arpframe | [LABEL:label] TIMESTAMP=bool ETHER=bool ACTIVE=bool | active:bool
AdaptiveRED | 1 1 l any | TARGET:pos MAX_P:share STABILITY=pos |
BlockThread | 0 0 a raw | | block:moment
ClickyInfo | 0 0 a raw | str* |
FTPPortMapper | 1 1 h ftp | CONTROL_REWRITER:rewriter DATA_REWRITER:rewriter DATA_REWRITER_INPUT:natural |
FromDump | 0 1-2 a raw | FILENAME:capture STOP=bool TIMING=bool SAMPLE=ratio01 FORCE_IP=bool START=time START_AFTER=lasting END=end END_AFTER=lasting INTERVAL=lasting END_CALL=end_call ACTIVE=bool MMAP=bool | active:bool reset_counts:none extend_interval:dur reset_timing:none
FromIPSummaryDump | 0 1 a raw | FILENAME:summary STOP=bool TIMING=bool ACTIVE=bool ZERO!yes CHECKSUM!yes PROTO=summary_proto MULTIPACKET=bool SAMPLE=ratio01 FIELDS=read_fields ALLOW_NONEXISTENT=bool | active:bool
HashSwitch | 1 2-3 h any | OFFSET:stripped LENGTH:some_length |
ICMPRewriter | 1 1 h errors | MAPS:rewriter DST_ANNO=bool |
IPRateMonitor | 1-2 1-2 h ipa | TYPE:ratetype RATIO:share THRESH:some [MEMORY:sized] ANNO!no | reset:none
Message | 0 0 a raw | MESSAGE:said [TYPE:severity] |
RandomSource | 0 1 a raw | LENGTH:sized LIMIT!lim BURST=some ACTIVE=bool STOP=bool END_CALL=end_call TIMESTAMP=bool | length:sized limit:lim burst:some active:bool reset:none
RandomSwitch | 1 1-3 h any | |
Script | 0 0 a raw | TYPE!passive instruction* | add?:sum sub?:sum mul?:sum div?:sum idiv?:sum mod?:sum rem?:sum min?:sum max?:sum neg?:sum abs?:sum eq?:sum ne?:sum lt?:sum gt?:sum le?:sum ge?:sum not?:truths and?:truths or?:truths nand?:yeses nor?:truths if?:truths in?:sum sprintf?:format length?:label unquote?:label htons?:swapped htonl?:swapped ntohs?:swapped ntohl?:swapped get?:variable shift:variable set:assignment run:sum
SourceIPHashMapper | 0 0 a raw | NODES:two_numbers mapper+ |
StoreTimestamp | 1 1 a any | OFFSET=small TAIL=bool |
"""


@dataclass(frozen=True)
class Spec:
    """Ports, packets, arguments and handlers of a class."""

    name: str
    inputs: tuple
    outputs: tuple
    processing: str
    packets: str
    args: tuple
    handlers: tuple


def span(text):
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def read_specs():
    out = {}
    for line in CLASSES.strip().splitlines():
        name, ports, args, handlers = (part.strip() for part in line.split("|"))
        i, o, processing, packets = ports.split()
        out[name] = Spec(name, span(i), span(o), processing, packets, tuple(args.split()),
                         tuple(h.split(":") for h in handlers.split()))
    return out


SPECS = read_specs()

# Classes that Click takes without an argument that the manual requires.
LAX = {"AdjustTimestamp", "EtherVLANEncap", "ICMP6Error"}

# Classes whose argument has no keyword in Click, or another one than in the manual.
PLACE_ONLY = {"SetIPAddress", "InputSwitch", "SourceIPHashMapper"}

# Kinds of arguments of which there is one for each port.
PER_INPUT = {"spec", "addr_spec", "source_spec"}
PER_OUTPUT = {"pattern", "class_pattern"}

# Classes that do not notify when there is nothing to pull. Simulated time stands still while such a class is polled in a
# loop, so a TimedUnqueue pulls.
PULLERS = dict.fromkeys(
    "SimpleQueue SimplePullSwitch StaticPullSwitch MixedQueue Shaper BandwidthShaper".split(), "TimedUnqueue(0.00373)")

# Classes whose packets leave at other times than in Click, or are pulled by such a class: docs/click.md says why.
UNTIMED = {*PULLERS, "BandwidthRatedUnqueue", "Burster", "InfiniteSource", "RatedSource", "RatedUnqueue", "TimedUnqueue"}

# Handlers of all elements, which tests in crates/ cover.
UNIVERSAL = set("""
name class ports handlers tasks cycles xcycles icounts scheduled home_thread home_thread_id tickets bandwidth_tickets
""".split())

# Handlers whose answers differ; docs/click.md says why.
UNREAD = {
    "AggregateCounter": "aggregate_call count_call",
    "AdaptiveRED": "config stats avg_queue_size max_p",
    "AggregateIP": "header",
    "ARPQuerier": "drops stats responses broadcast table",
    "ARPTable": "table",
    "AverageCounter": "rate byte_rate",
    "BandwidthMeter": "rate",
    "Classifier": "program",
    "CoDel": "config stats",
    "Counter": "rate bit_rate byte_rate",
    "Discard": "active",
    "EtherVLANEncap": "config native_vlan vlan_pcp vlan_id",
    "FromIPSummaryDump": "filepos filesize",
    "IPRateMonitor": "look thresh",
    "ICMPPingRewriter": "table mappings",
    "ICMPPingSource": "config summary rtt_min rtt_avg rtt_max",
    "InfiniteSource": "data",
    "IPAddrRewriter": "table mappings",
    "IPClassifier": "program config",
    "IPFilter": "program",
    "IPRewriter": "tcp_lookup udp_lookup",
    "LinkUnqueue": "bandwidth",
    "LookupIP6Route": "table",
    "MarkIPCE": "drops",
    "Meter": "rate",
    "RatedSource": "data rate",
    "RED": "config stats avg_queue_size",
    "Script": "random",
    "SetIPDSCP": "dscp",
    "SetTimestampDelta": "first",
    "TCPRewriter": "lookup",
    "TimedSource": "data",
    "TimeFilter": "start end interval",
    "TimestampAccum": "time average_time",
    "ToIPSummaryDump": "config",
    "UDPIPEncap": "dst",
    **dict.fromkeys("""
        BandwidthRatedSplitter BandwidthRatedUnqueue BandwidthShaper ICMPIPEncap ICMPPingEncap InputSwitch PullSwitch
        RandomSample RandomSeed RatedSplitter RatedUnqueue SetVLANAnno Shaper SimplePullSwitch StrideSched Switch VLANEncap
        """.split(), "config rate native_vlan"),
}

# Classes that drop packets that are too short for them, where Click works on the bytes behind a packet.
WHOLE = set("""
AggregateIPAddrPair AggregateIPFlows ARPQuerier Bypass CheckIP6Header DecIP6HLIM DecIPTTL EtherMirror EtherRewrite EtherSwitch
EtherVLANEncap FixIPSrc GetEtherAddress GetIP6Address GetIPAddress HostEtherFilter ICMP6Error ICMPError ICMPPingResponder
IP6Fragmenter IPInputCombo IPMirror IPOutputCombo IPPrint IPRateMonitor IPReassembler LookupIP6Route MarkIP6Header MarkIPCE
MarkIPHeader MarkMACHeader SetIPChecksum SetIPDSCP SetIPECN SetTCPChecksum SetUDPChecksum StoreEtherAddress StoreIPAddress
Strip StripEtherVLANHeader StripIPHeader UDPIPEncap VLANDecap VLANEncap
""".split())

# Classes for which a fragment is another thing than in Click: IPFilter drops those that hide the transport header.
UNFRAGMENTED = {"AggregateIPFlows", "IPFilter", "ICMPPingResponder", "SetTCPChecksum", "SetUDPChecksum"}

# Classes that look at IP options one by one.
BAD_OPTIONS = {"CheckIPHeader", "CheckIPHeader2", "MarkIPHeader"}

# Classes for which IP options are no random bytes: behind such an option Click does not see a source route.
NEAT_OPTIONS = {"IPGWOptions", "SetTCPChecksum", "SetUDPChecksum"}

# Classes that have as many inputs as outputs.
SQUARE = {"Clipboard", "EtherSwitch", "Hub", "AggregatePacketCounter", "IPRateMonitor"}

# Elements in front of a class. Without them the class would work on undefined bytes, or on packets that it is not made
# for.
BEFORE = {
    "ARPQuerier": "GetIPAddress(16)",
    "ARPPrint": "MarkMACHeader(0, 14)",
    "AggregateIPFlows": "IPClassifier(not (src host 0.0.0.0 or dst host 0.0.0.0))",
    "Clipboard": "Pad(64)",
    "ICMPRewriter": "ct",
    "IPAddrRewriter": "IPClassifier(not (src host 0.0.0.0 or dst host 0.0.0.0))",
    "StoreIPAddress": "SetIPAddress(10.0.0.2)",
    "StoreTimestamp": "SetTimestamp(1000000001.25) -> Pad(128)",
    "Strip": "Pad(64)",
    "Unstrip": "Pad(64) -> Strip(20)",
}

# Elements that a class names in its arguments.
BESIDE = {
    "FTPPortMapper": "rw :: IPRewriter(pattern 1.0.0.1 9000-14000# - - 0 0, pattern 1.0.0.1 1024-1030# - - 0 0); Idle -> [1]rw;",
    "ICMPRewriter": "rw :: IPRewriter(pattern 1.0.0.1 1024-1030# - - 0 0); ct :: IPClassifier(icmp, -); "
                    "ct[1] -> rw -> Print(o8, -1) -> Discard;",
}

# Elements behind a class, or one of its outputs, that take away what Click's class does not note, or does not mend.
AFTER = {"CheckIP6Header": "SetIP6Address(::)", "FTPPortMapper": "[0]rw", ("IPGWOptions", 1): "SetIPChecksum"}

# Classes whose second output is for packets that are pushed.
PUSHED = {"AggregateCounter"}

# Classes whose choice of an output is by chance or by a hash: only the packets are compared.
MERGED = {"HashSwitch", "RandomSwitch"}

# Classes whose packets hold random bytes: only their lengths are compared.
RANDOM_BYTES = {"RandomSource"}
