c :: Classifier(12/0800, -);
c[first] -> Discard;
c[99999999] -> Discard;
c[3-1] => Discard, Discard, Discard;
c[-1] -> Discard;
