Idle -> ( -> Discard ) -> Discard;
