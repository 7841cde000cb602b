package apiserver

import (
	"crypto/tls"
	"reflect"
	"testing"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
)

// optionsOf returns the options that a command line of `millrace apiserver` makes.
func optionsOf(t *testing.T, args ...string) (millrace.Options, error) {
	t.Helper()
	f, c := &Flags{}, &cobra.Command{}
	f.Register(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.Options(nil)
}

func TestFlagsOfTLSReachTheServer(t *testing.T) {
	o, err := optionsOf(t, "--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA",
		"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "--tls-curve-preferences=29,4588",
		"--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.example,::1")
	want := millrace.TLSOptions{
		MinVersion: tls.VersionTLS13, Curves: []tls.CurveID{tls.X25519, tls.X25519MLKEM768},
		CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_RC4_128_SHA, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
		Named:        []millrace.NamedCertificateFiles{{CertFile: "a.crt", KeyFile: "a.key"}, {CertFile: "b.crt", KeyFile: "b.key", Names: []string{"*.b.example", "::1"}}},
	}
	if err != nil || !reflect.DeepEqual(o.Serving.TLS, want) {
		t.Errorf("%+v, %v", o.Serving.TLS, err)
	}
}
