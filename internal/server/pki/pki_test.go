package pki

import (
	"crypto"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func openKeys(t *testing.T, directory string, now time.Time, hosts ...string) *Keys {
	t.Helper()
	k, err := Open(directory, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sameKey(a, b crypto.Signer) bool {
	return a.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(b.Public())
}

func verify(k *Keys, c *x509.Certificate, now time.Time, use x509.ExtKeyUsage) error {
	_, err := c.Verify(x509.VerifyOptions{Roots: k.Clients(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

func TestWhatIsInTheDirectoryIsUsedAsItIs(t *testing.T) {
	directory, now := t.TempDir(), time.Now()
	first, second := openKeys(t, directory, now, "a.example"), openKeys(t, directory, now.Add(time.Hour), "a.example")
	for name, pairs := range map[string][2]Pair{
		"authority": {first.Authority, second.Authority}, "serving": {first.Serving, second.Serving}, "admin": {first.Admin, second.Admin},
	} {
		if !pairs[0].Certificate.Equal(pairs[1].Certificate) || !pairs[0].Key.Equal(pairs[1].Key) {
			t.Errorf("%s: another one was made", name)
		}
	}
	if !sameKey(first.Signing, second.Signing) {
		t.Error("another signing key was made")
	}
}

func TestCertificatesAreForWhatTheyAreMadeFor(t *testing.T) {
	now := time.Now()
	k := openKeys(t, "", now, "a.example", "10.0.0.1")
	if err := verify(k, k.Serving.Certificate, now, x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	if verify(k, k.Serving.Certificate, now, x509.ExtKeyUsageClientAuth) == nil {
		t.Error("the server's certificate opens the API")
	}
	for _, host := range []string{"a.example", "10.0.0.1"} {
		if err := k.Serving.Certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if err := verify(k, k.Admin.Certificate, now, x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
}

func TestACertificateIsMadeAnewWhenItDoesNotFit(t *testing.T) {
	now := time.Now()
	for name, spoil := range map[string]func(t *testing.T, directory string) (later time.Duration, hosts []string){
		"it expires soon":    func(*testing.T, string) (time.Duration, []string) { return 340 * 24 * time.Hour, []string{"a.example"} },
		"a host is missing":  func(*testing.T, string) (time.Duration, []string) { return 0, []string{"a.example", "b.example"} },
		"the key is missing": func(t *testing.T, f string) (time.Duration, []string) { return remove(t, f, "apiserver.key") },
		"the certificate is missing, as after a crash": func(t *testing.T, f string) (time.Duration, []string) {
			return remove(t, f, "apiserver.crt")
		},
		"the key is another one, as after a crash": func(t *testing.T, f string) (time.Duration, []string) {
			other := openKeys(t, "", now)
			if err := os.WriteFile(filepath.Join(f, "apiserver.key"), other.Serving.KeyPEM, 0o600); err != nil {
				t.Fatal(err)
			}
			return 0, []string{"a.example"}
		},
		"the authority is another one": func(t *testing.T, f string) (time.Duration, []string) {
			remove(t, f, "ca.key")
			return remove(t, f, "ca.crt")
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			first := openKeys(t, directory, now, "a.example")
			later, hosts := spoil(t, directory)
			k := openKeys(t, directory, now.Add(later), hosts...)
			if k.Serving.Certificate.Equal(first.Serving.Certificate) {
				t.Error("the old certificate is used")
			}
			if !k.Serving.matches() {
				t.Error("certificate and key do not belong together")
			}
			if err := verify(k, k.Serving.Certificate, now.Add(later), x509.ExtKeyUsageServerAuth); err != nil {
				t.Error(err)
			}
			again := openKeys(t, directory, now.Add(later), hosts...)
			if !again.Serving.Certificate.Equal(k.Serving.Certificate) {
				t.Error("what was made is not kept")
			}
		})
	}
}

func remove(t *testing.T, directory, name string) (time.Duration, []string) {
	t.Helper()
	if err := os.Remove(filepath.Join(directory, name)); err != nil {
		t.Fatal(err)
	}
	return 0, []string{"a.example"}
}

func TestAnAuthorityIsNeverReplacedWhileItIsValid(t *testing.T) {
	directory, now := t.TempDir(), time.Now()
	first := openKeys(t, directory, now)
	later := first.Authority.Certificate.NotAfter.Add(-time.Hour)
	if k := openKeys(t, directory, later); !k.Authority.Certificate.Equal(first.Authority.Certificate) {
		t.Error("another authority was made an hour before the end of the first")
	}
	if k := openKeys(t, directory, later.Add(2*time.Hour)); k.Authority.Certificate.Equal(first.Authority.Certificate) {
		t.Error("the authority has expired and is still used")
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	for name, file := range map[string]string{"no certificate": "apiserver.crt", "no key": "apiserver.key", "no signing key": "sa.key", "no authority": "ca.crt"} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			openKeys(t, directory, time.Now())
			if err := os.WriteFile(filepath.Join(directory, file), []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(directory, nil, time.Now()); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("an authority with another key", func(t *testing.T) {
		directory := t.TempDir()
		openKeys(t, directory, time.Now())
		if err := os.WriteFile(filepath.Join(directory, "ca.key"), openKeys(t, "", time.Now()).Authority.KeyPEM, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(directory, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "belong together") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestKeysAreReadableByTheirOwnerAlone(t *testing.T) {
	directory := t.TempDir()
	openKeys(t, directory, time.Now())
	keys, err := filepath.Glob(filepath.Join(directory, "*.key"))
	if err != nil || len(keys) != 6 {
		t.Fatalf("keys are %v (%v)", keys, err)
	}
	for _, k := range keys {
		info, err := os.Stat(k)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", k, info.Mode())
		}
	}
}
