package archive

import (
	"strings"
	"testing"
)

func TestFilesOfCredentialsAreLeftOut(t *testing.T) {
	for _, place := range credentialPlaces {
		if fold(place) != place {
			t.Errorf("%s has another form in a path", place)
		}
		for _, name := range []string{place, "home/ann/" + place, strings.ToUpper(place), place + "/x"} {
			for _, tier := range []Tier{Workspace, Session} {
				if !denied(tier, name) {
					t.Errorf("%s of tier %s is not denied", name, tier)
				}
			}
		}
		if name := "x" + place + "x"; denied(Workspace, name) {
			t.Errorf("%s is denied", name)
		}
	}
	for _, name := range []string{"wp-config.php", "docker-compose.yml", "settings.xml", "config/credentials.yml.enc", "src/secrets.go", ".cargo/registry/a"} {
		if denied(Workspace, name) {
			t.Errorf("%s is denied", name)
		}
	}
}
