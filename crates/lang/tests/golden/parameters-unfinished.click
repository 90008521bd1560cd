elementclass A { $a, $b input -> Print($a) -> output }
elementclass B { $a, | input -> output }
