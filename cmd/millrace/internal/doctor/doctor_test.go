package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// certificate returns one that ends some time after now.
func certificate(t *testing.T, left time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "somebody"}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(left)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestCertificatesThatEndSoonAreNamed(t *testing.T) {
	m := machine{data: t.TempDir(), now: now}
	if found := m.certificates(); len(found) != 1 || found[0].what != "none yet" {
		t.Errorf("%+v", found)
	}
	if err := os.Mkdir(filepath.Join(m.data, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string, left time.Duration) {
		if err := os.WriteFile(filepath.Join(m.data, "pki", name), certificate(t, left), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.crt", 365*24*time.Hour)
	write("a.key", -time.Hour)
	if found := m.certificates(); len(found) != 1 || found[0] != (finding{fine, "1, none of which ends within 30d", ""}) {
		t.Errorf("%+v", found)
	}
	write("b.crt", 5*24*time.Hour)
	write("c.crt", -time.Hour)
	found := m.certificates()
	if len(found) != 2 || found[0].verdict != unusual || !strings.Contains(found[0].what, "b.crt (somebody) ends in 5d") ||
		found[1].verdict != broken || !strings.Contains(found[1].what, "c.crt (somebody) has ended at 2026-11-29 11:00:00") {
		t.Errorf("%+v", found)
	}
	m.now = now.Add(-48 * time.Hour)
	if found := m.certificates(); len(found) != 3 || found[0].verdict != broken || !strings.Contains(found[0].what, "begins at") {
		t.Errorf("%+v", found)
	}
}

func TestAnAddressThatIsTakenIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := machine{data: "memory", listen: l.Addr().String()}
	if found := m.address(); len(found) != 1 || found[0].verdict != broken || !strings.Contains(found[0].what, "is in use by another process") {
		t.Errorf("%+v", found)
	}
	l.Close()
	if found := m.address(); len(found) != 1 || found[0].verdict != fine {
		t.Errorf("%+v", found)
	}
	m.listen = "nowhere"
	if found := m.address(); found[0].verdict != broken {
		t.Errorf("%+v", found)
	}
}

func TestExaminingLeavesNoFileAndFailsIfSomethingIsWrong(t *testing.T) {
	above := t.TempDir()
	m := machine{data: filepath.Join(above, "not", "there"), listen: "127.0.0.1:0", now: now}
	var out strings.Builder
	if err := m.examine(&out, append(everywhere, ofSystem...)); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"ok    address", "not/there will be made", "a write of 4 KiB is safe after "} {
		if !strings.Contains(out.String(), filepath.FromSlash(want)) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	if left, err := os.ReadDir(above); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	bad := check{"x", func(machine) []finding { return []finding{{broken, "y", "do z"}, {broken, "y", ""}} }}
	out.Reset()
	if err := m.examine(&out, []check{bad}); err == nil || err.Error() != "2 things are wrong" || out.String() != "wrong  x  y: do z\nwrong  x  y\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	m.data = filepath.Join(above, "file", "below")
	if err := os.WriteFile(filepath.Join(above, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := m.dataDirectory(); found[0].verdict != broken {
		t.Errorf("a file is in the way: %+v", found)
	}
}
