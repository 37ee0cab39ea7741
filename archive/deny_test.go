package archive

import (
	"strings"
	"testing"
)

func TestEveryDeniedPlaceIsDenied(t *testing.T) {
	for _, place := range deniedPlaces {
		for _, name := range []string{place, place + "/x", "a/" + place, "a/b/" + strings.ToUpper(place) + "/c"} {
			if !denied(Workspace, name) {
				t.Errorf("%s is not denied", name)
			}
		}
		if denied(Workspace, "x"+place+"x") {
			t.Errorf("x%sx is denied", place)
		}
	}
}
