define(MTU 1500, $ok 1, $);
define;
