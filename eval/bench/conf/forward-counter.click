// forward.click with one Counter more: what it costs to count on an edge.
FromDevice($IN) -> Counter -> out :: ToDevice($OUT);
