package web

import (
	"net"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestAddressesOfAServer(t *testing.T) {
	public, err := url.Parse("https://Segno.Example.com")
	if err != nil {
		t.Fatal(err)
	}
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7777}
	every := &net.TCPAddr{IP: net.IPv6zero, Port: 80}
	for _, x := range []struct {
		listen       net.Addr
		public       *url.URL
		host, origin string
		ok           bool
	}{
		{loopback, nil, "127.0.0.1:7777", "http://localhost:7777", true},
		{loopback, nil, "[::1]:7777", "http://[::1]:7777", true},
		{loopback, nil, "127.0.0.1", "", false},
		{loopback, nil, "localhost:7777", "https://localhost:7777", false},
		{loopback, nil, "localhost.evil.example:7777", "", false},
		{loopback, nil, "segno.example.com", "", false},
		{loopback, public, "segno.example.com", "https://segno.example.com", true},
		{loopback, public, "segno.example.com", "http://segno.example.com", false},
		{loopback, public, "segno.example.com:7777", "", false},
		{loopback, public, "127.0.0.1:7777", "", true},
		{every, public, "192.0.2.1:80", "", false},
		{every, public, "localhost", "http://localhost", true},
		{every, public, "", "", false},
	} {
		g := newGuard(x.listen, x.public, NewToken(), nil)
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = x.host
		if x.origin != "" {
			r.Header.Set("Origin", x.origin)
		}
		if err := g.checkSite(r, false); (err == nil) != x.ok {
			t.Errorf("%s %s: %v", x.host, x.origin, err)
		}
	}
}
