"""Random configurations of single classes, for Click and `ashlar click`.

A case is one element with random arguments, its neighbours, packets, and a script that sends the packets and calls
handlers. Both programs run it in simulated time, and everything that they say is compared. `python3 -m click_peer --help`
tells how to run many.
"""
