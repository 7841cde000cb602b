package pods

import (
	"net/netip"
	"os"
	"testing"
)

// TestAnAddressMayBeFreedWhileOthersAreRead: pods are deleted side by side. A link to nothing is a name without a file,
// as one that was just removed.
func TestAnAddressMayBeFreedWhileOthersAreRead(t *testing.T) {
	a := addresses{directory: t.TempDir()}
	kept := netip.MustParseAddr("10.244.0.9")
	if err := a.record(kept, "owner"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", a.file(netip.MustParseAddr("10.244.0.5"))); err != nil {
		t.Fatal(err)
	}
	if all, err := a.ownedBy("owner"); err != nil || len(all) != 1 || all[0] != kept {
		t.Errorf("the owner has %v, %v", all, err)
	}
}
