c :: Classifier(12/0800, -);
Idle -> c
[1] c -> Discard;
