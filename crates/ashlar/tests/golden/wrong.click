in :: FromDevise(null:64) -> c :: Counter(BYTES maybe) -> q :: Queue(many);
q -> d :: Discard;
q -> DecIPTTL -> Discard;
undeclared -> d;
