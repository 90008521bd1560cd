a, b :: Tee(3);
a[] => []b;
a[] -> b;
a => b[], Discard, Discard[];
Idle => a[0], []b, []a;
