package client_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/client"
)

// TestAnAddressThatIsRefusedShowsNoToken gives addresses without a scheme, with the token that the server printed behind them. The error,
// which a program logs, has neither the token nor a password.
func TestAnAddressThatIsRefusedShowsNoToken(t *testing.T) {
	const secret = "hXU3vVtGkq7Wn0"
	for _, address := range []string{"localhost:7777/#" + secret, "127.0.0.1:7777/#" + secret, "segno.example.com#" + secret, "ftp://localhost/#" + secret,
		"http://localhost:port/#" + secret, "ftp://user:" + secret + "@localhost/", "http://user:" + secret + "@localhost:port/", "http:///?token=" + secret} {
		if _, err := client.New(address, ""); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
