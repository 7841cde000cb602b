package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var quiet = slog.New(slog.DiscardHandler)

// during runs a function in the background while do runs, and waits for its end.
func during(t *testing.T, run func(context.Context) error, do func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) })
	do()
	cancel()
	running.Wait()
}

// handshake makes a TLS handshake and returns the certificates that the client and the server saw.
func handshake(t *testing.T, server *tls.Config, client *tls.Config) (serving, by *x509.Certificate) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	s := tls.Server(far, server)
	failed := make(chan error, 1)
	go func() { failed <- s.HandshakeContext(t.Context()) }()
	c := tls.Client(near, client)
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if peers := s.ConnectionState().PeerCertificates; len(peers) > 0 {
		by = peers[0]
	}
	return c.ConnectionState().PeerCertificates[0], by
}

func TestCertificatesAreRenewedWhileTheServerRuns(t *testing.T) {
	for name, directory := range map[string]string{"in memory": "", "in a directory": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := OpenRotating(directory, []string{"api.example"}, quiet)
				if err != nil {
					t.Fatal(err)
				}
				client, err := r.Client("caller", []string{"group"})
				if err != nil {
					t.Fatal(err)
				}
				first, firstClient := r.Keys(), client.Certificate().Leaf
				server := ServerTLS(ServerOptions{Serving: r.Serving, Clients: r.Keys().Clients})
				during(t, r.Run, func() {
					for range 2 { // for two years and more, clients that know the authority can connect
						serving, by := handshake(t, server, &tls.Config{
							ServerName: "api.example", RootCAs: first.Clients(), MaxVersion: tls.VersionTLS12,
							GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client.Certificate(), nil },
						})
						for _, c := range []*x509.Certificate{serving, by, r.Keys().Admin.Certificate} {
							if left := time.Until(c.NotAfter); left < renewBefore-rotateEvery {
								t.Errorf("%s has %v left", c.Subject.CommonName, left)
							}
							if err := verify(first, c, time.Now(), x509.ExtKeyUsageAny); err != nil {
								t.Error(err)
							}
						}
						time.Sleep(certificateLife + time.Minute)
					}
					if r.Serving().Leaf.Equal(first.Serving.Certificate) || client.Certificate().Leaf.Equal(firstClient) {
						t.Error("nothing was renewed")
					}
					if now := r.Keys(); !sameKey(now.Signing, first.Signing) || !now.Authority.Certificate.Equal(first.Authority.Certificate) {
						t.Error("the authority or the signing key is another one")
					}
				})
			})
		})
	}
}

func TestACertificateThatSomebodyPutIntoTheDirectoryIsServed(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, err := OpenRotating(directory, nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		wanted := template(time.Now())
		servingTemplate(wanted, nil)
		other, err := Issue(wanted, &r.Keys().Authority)
		if err != nil {
			t.Fatal(err)
		}
		during(t, r.Run, func() {
			write(t, filepath.Join(directory, "apiserver.crt"), other.CertPEM)
			write(t, filepath.Join(directory, "apiserver.key"), other.KeyPEM)
			time.Sleep(rotateEvery + time.Second)
			if !r.Serving().Leaf.Equal(other.Certificate) {
				t.Error("the certificate before is served")
			}
		})
	})
}

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	directory := t.TempDir()
	certFile, keyFile := filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key")
	synctest.Test(t, func(t *testing.T) {
		one, two := openKeys(t, "", time.Now()).Serving, openKeys(t, "", time.Now()).Serving
		write(t, certFile, one.CertPEM)
		write(t, keyFile, one.KeyPEM)
		w, err := WatchPair(quiet, certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		during(t, w.Run, func() {
			steps := []struct {
				what string
				do   func()
				want Pair
			}{
				{"nothing changes", func() {}, one},
				{"one of two files is replaced", func() { write(t, certFile, two.CertPEM) }, one},
				{"the other follows", func() { write(t, keyFile, two.KeyPEM) }, two},
				{"a file vanishes", func() { os.Remove(keyFile) }, two},
				{"nonsense is written", func() { write(t, keyFile, []byte("nonsense")) }, two},
				{"the file is repaired", func() { write(t, keyFile, two.KeyPEM) }, two},
				{"both are replaced", func() { write(t, keyFile, one.KeyPEM); write(t, certFile, one.CertPEM) }, one},
			}
			for _, s := range steps {
				s.do()
				time.Sleep(watchEvery + time.Second)
				leaf, err := x509.ParseCertificate(w.Get().Certificate[0])
				if err != nil {
					t.Fatal(err)
				}
				if !leaf.Equal(s.want.Certificate) {
					t.Errorf("%s: another certificate is served", s.what)
				}
			}
		})
	})
}

func TestAuthoritiesAreReadAgainWhenTheyChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clients.crt")
	synctest.Test(t, func(t *testing.T) {
		own, one, two := openKeys(t, "", time.Now()), openKeys(t, "", time.Now()), openKeys(t, "", time.Now())
		write(t, file, one.Authority.CertPEM)
		w, err := WatchAuthorities(quiet, own.Clients, file)
		if err != nil {
			t.Fatal(err)
		}
		believed := func(k *Keys) bool {
			_, err := k.Admin.Certificate.Verify(x509.VerifyOptions{Roots: w.Get(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			return err == nil
		}
		during(t, w.Run, func() {
			if !believed(own) || !believed(one) || believed(two) {
				t.Error("at first")
			}
			write(t, file, two.Authority.CertPEM)
			time.Sleep(watchEvery + time.Second)
			if !believed(own) || believed(one) || !believed(two) {
				t.Error("after the file was replaced")
			}
		})
	})
}

func TestFilesThatCannotBeReadAtTheStartAreAnError(t *testing.T) {
	if _, err := WatchPair(quiet, "none.crt", "none.key"); err == nil {
		t.Error("a pair was made of files that do not exist")
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
