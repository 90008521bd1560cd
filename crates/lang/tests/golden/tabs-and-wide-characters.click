	/* Grüße 漢字 */	a :: Idle; a :: Idle;
