package flags

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
)

// TLS configure the TLS of a port, under the names of Kubernetes' programs.
type TLS struct {
	MinVersion string
	Suites     []string
	Curves     []int32
	named      namedCertificates
}

func (t *TLS) Add(fl *pflag.FlagSet) {
	t.AddBasic(fl)
	fl.Int32SliceVar(&t.Curves, "tls-curve-preferences", nil, "key exchanges that are accepted, by the numbers of Go's CurveID; their order does not matter (default: those of Go)")
	fl.Var(&t.named, "tls-sni-cert-key", "certificate and key for clients that ask for certain names: cert,key[:name,...] (default: the names in the certificate); may be repeated")
}

// AddBasic adds the flags that the kubelet has, too.
func (t *TLS) AddBasic(fl *pflag.FlagSet) {
	fl.StringVar(&t.MinVersion, "tls-min-version", "", "oldest version of TLS that is accepted: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13 (default: VersionTLS12)")
	fl.StringSliceVar(&t.Suites, "tls-cipher-suites", nil, "cipher suites that are accepted for TLS 1.2 and older, by Go's names (default: those of Go)")
}

// Options returns the options that the flags name.
func (t *TLS) Options() (o millrace.TLSOptions, err error) {
	o.Named = t.named
	if o.MinVersion, err = tlsVersion(t.MinVersion); err != nil {
		return o, err
	}
	for _, name := range t.Suites {
		suite, ok := cipherSuite(name)
		if !ok {
			return o, fmt.Errorf("Cipher suite %s not supported or doesn't exist", name)
		}
		o.CipherSuites = append(o.CipherSuites, suite)
	}
	for _, number := range t.Curves {
		curve := tls.CurveID(number)
		if int32(curve) != number || !slices.Contains(curves, curve) {
			return o, fmt.Errorf("curve preference %d is not supported by the current Go version", number)
		}
		o.Curves = append(o.Curves, curve)
	}
	return o, nil
}

// tlsVersion returns the number of a version of TLS; 0 without a name.
func tlsVersion(name string) (uint16, error) {
	versions := map[string]uint16{"": 0, "VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11, "VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}
	version, ok := versions[name]
	if !ok {
		return 0, fmt.Errorf("unknown tls version %q", name)
	}
	return version, nil
}

// curves are the key exchanges of Go.
var curves = []tls.CurveID{
	tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
}

// olderSuites are names of cipher suites that Go has renamed.
var olderSuites = map[string]uint16{
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
}

// cipherSuite returns the number of a cipher suite. Insecure ones are accepted too, as by kube-apiserver.
func cipherSuite(name string) (uint16, bool) {
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if s.Name == name {
			return s.ID, true
		}
	}
	id, ok := olderSuites[name]
	return id, ok
}

// namedCertificates is the value of --tls-sni-cert-key, which may be repeated.
type namedCertificates []millrace.NamedCertificateFiles

// Set implements pflag.Value.
func (n *namedCertificates) Set(text string) error {
	pair, names, named := strings.Cut(text, ":")
	files := strings.Split(pair, ",")
	if len(files) != 2 {
		return errors.New("expected comma separated certificate and key file paths")
	}
	c := millrace.NamedCertificateFiles{CertFile: strings.TrimSpace(files[0]), KeyFile: strings.TrimSpace(files[1])}
	if named {
		if strings.TrimSpace(names) == "" {
			return errors.New("empty names list is not allowed")
		}
		for _, name := range strings.Split(names, ",") {
			c.Names = append(c.Names, strings.TrimSpace(name))
		}
	}
	*n = append(*n, c)
	return nil
}

// String implements pflag.Value.
func (n *namedCertificates) String() string {
	var all []string
	for _, c := range *n {
		text := c.CertFile + "," + c.KeyFile
		if len(c.Names) > 0 {
			text += ":" + strings.Join(c.Names, ",")
		}
		all = append(all, text)
	}
	return strings.Join(all, ";")
}

// Type implements pflag.Value.
func (n *namedCertificates) Type() string { return "namedCertKey" }
