//go:build unix

package real_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/millracetest"
)

// extension is an extension API server: a process, which the cluster reaches as the endpoint of a Service.
type extension struct {
	path, address, port string
	log                 string // a file
	args                []string
	bundle              []byte // verifies its certificate
	running             *exec.Cmd
}

// newExtension returns an extension API server that does not run yet, with a port and a certificate for its Service.
func (w *world) newExtension(path, namespace, service string) *extension {
	w.Helper()
	e := &extension{path: path, address: w.machineAddress(), log: filepath.Join(w.directory, service+".log")}
	l, err := net.Listen("tcp", net.JoinHostPort(e.address, "0"))
	w.must(err)
	_, e.port, _ = net.SplitHostPort(l.Addr().String())
	w.must(l.Close())
	e.certify(w, service+"."+namespace+".svc")
	w.Cleanup(func() { e.kill(); e.tell(w) })
	return e
}

// machineAddress returns an address of this machine that an EndpointSlice may have.
func (w *world) machineAddress() string {
	w.Helper()
	all, err := net.InterfaceAddrs()
	w.must(err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	w.Skip("this machine has no IPv4 address but loopback")
	return ""
}

// certify makes the certificate that the server presents.
func (e *extension) certify(w *world, name string) {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.ParseIP(e.address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.must(err)
	encoded, err := x509.MarshalECPrivateKey(key)
	w.must(err)
	e.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	e.args = append(e.args, "--secure-port="+e.port, "--tls-cert-file="+w.file("serving.crt", string(e.bundle)),
		"--tls-private-key-file="+w.file("serving.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}))))
}

// words are what manifests say of the server.
func (e *extension) words() []string {
	return []string{"{ADDRESS}", e.address, "{PORT}", e.port, "{BUNDLE}", base64.StdEncoding.EncodeToString(e.bundle)}
}

// delegates makes the server ask the cluster who calls it, and what they may do, with the credentials of a kubeconfig.
func (e *extension) delegates(kubeconfig string) {
	e.args = append(e.args, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
}

// start runs the server.
func (e *extension) start(w *world) {
	w.Helper()
	c := exec.Command(e.path, e.args...)
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.must(err)
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	w.must(c.Start())
	e.running = c
}

// tell logs the end of what the server has logged, if the test has failed.
func (e *extension) tell(w *world) {
	if text, err := os.ReadFile(e.log); err == nil && w.Failed() {
		w.Logf("the server's log ends with\n%s", text[max(0, len(text)-8<<10):])
	}
}

// kill ends the server as kill -9 does.
func (e *extension) kill() {
	if e.running != nil {
		_ = e.running.Process.Kill()
		_ = e.running.Wait()
		e.running = nil
	}
}

// signal stops the server where it is, or lets it go on.
func (e *extension) signal(w *world, s syscall.Signal) {
	w.Helper()
	w.must(e.running.Process.Signal(s))
}

// condition waits until the condition Available of an APIService has a reason.
func (w *world) condition(name, reason string) apiregistrationv1.APIServiceCondition {
	w.Helper()
	var found apiregistrationv1.APIServiceCondition
	millracetest.WaitWithin(w.T, bound, w.services.ApiregistrationV1().APIServices(), name, func(s *apiregistrationv1.APIService) bool {
		for _, c := range s.Status.Conditions {
			if c.Type == apiregistrationv1.Available && c.Reason == reason {
				found = c
				return true
			}
		}
		return false
	})
	return found
}
