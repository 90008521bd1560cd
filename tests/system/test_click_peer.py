"""Random configurations of single classes, run by Click itself and by `ashlar click`.

Shows: what leaves by each port with its time and annotations, what handlers answer, and whether a configuration is taken
are the same. `CLICK_BIN` names Click's user-level program; without it all classes are skipped. `CLICK_CASES` is the number
of cases of a class, `CLICK_SEED` their seed. Classes that are not in AGREE differ on purpose, as docs/click.md says.
"""

import os

import click_peer
import pytest
from topology import ASHLAR

pytestmark = pytest.mark.ashlar

CLICK = os.environ.get("CLICK_BIN", "")
CASES = int(os.environ.get("CLICK_CASES", "20"))
SEED = int(os.environ.get("CLICK_SEED", "1"))

AGREE = """
ARPResponder ARPTable AddressInfo AdjustTimestamp AggregateCounter AggregateFilter AggregateFirst AggregateIP
AggregateIPAddrPair AggregateIPFlows AggregateLast AggregateLength AggregatePacketCounter AggregatePaint Align
AverageCounter BandwidthMeter BandwidthRatedSplitter BandwidthRatedUnqueue BandwidthShaper Burster Bypass
CheckICMPHeader CheckIP6Header CheckIPHeader CheckIPHeader2 CheckLength CheckPaint CheckTCPHeader
CheckUDPHeader Classifier Clipboard CoDel Counter DRRSched DecIP6HLIM DecIPTTL DelayShaper DelayUnqueue
DirectIPLookup Discard DropBroadcasts EnsureEther EtherEncap EtherMirror EtherRewrite EtherSwitch
EtherVLANEncap FixIPSrc FrontDropQueue FullNoteQueue GetEtherAddress GetIP6Address GetIPAddress
HostEtherFilter Hub ICMPError ICMPIPEncap ICMPPingEncap ICMPPingResponder ICMPPingRewriter ICMPPingSource
IP6Fragmenter IPAddrPairRewriter IPAddrRewriter IPClassifier IPEncap IPFilter IPFragmenter IPGWOptions
IPInputCombo IPMirror IPOutputCombo IPPrint IPReassembler IPRewriter IPRewriterPatterns Idle InfiniteSource
InputSwitch LinearIPLookup LinkUnqueue LookupIP6Route MSQueue MarkIP6Header MarkIPCE MarkIPHeader
MarkMACHeader Meter MixedQueue NotifierQueue Null Pad Paint PaintSwitch PaintTee PortInfo Print PrioSched
PullNull PullSwitch PushNull Queue QuickNoteQueue RED RadixIPLookup RandomSample RandomSeed RangeIPLookup
RatedSource RatedSplitter RatedUnqueue Resize RoundRobinIPMapper RoundRobinSched RoundRobinSwitch ScheduleInfo
SetEtherAddress SetIP6Address SetIPAddress SetIPChecksum SetIPDSCP SetIPECN SetTCPChecksum SetTimestamp
SetTimestampDelta SetUDPChecksum SetVLANAnno Shaper SimplePrioSched SimplePullSwitch SimpleQueue
StaticIPLookup StaticPullSwitch StaticSwitch StaticThreadSched StoreEtherAddress StoreIPAddress StrideSched
Strip StripEtherVLANHeader StripIPHeader StripToNetworkHeader Suppressor Switch TCPRewriter Tee
ThreadSafeQueue TimeFilter TimeRange TimeSortedSched TimedSink TimedSource TimedUnqueue TimestampAccum ToDump
Truncate UDPIPEncap UDPRewriter Unqueue Unstrip UnstripIPHeader VLANDecap VLANEncap
""".split()


@pytest.mark.skipif(not CLICK, reason="CLICK_BIN names no program of Click's")
@pytest.mark.parametrize("name", AGREE)
def test_a_class_does_as_in_click(name, tmp_path):
    peers = click_peer.Peers(CLICK, ASHLAR, str(tmp_path))
    difference, counts = click_peer.compare(peers, name, SEED, CASES)
    assert difference is None, f"{difference}\n{dict(counts)}"
    assert counts["taken"] > 0, dict(counts)


def test_every_class_that_agrees_is_described():
    assert set(AGREE) <= set(click_peer.SPECS)
