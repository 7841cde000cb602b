package credentials

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	infoPath      = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	infoKey       = "kubeconfig"
	signaturePart = "jws-kubeconfig-"
	maxInfo       = 1 << 20
)

// ErrNotSigned means that the cluster's cluster-info is not signed with the token.
var ErrNotSigned = errors.New("the cluster-info of this server is not signed by the token")

// Discover finds the CA certificates of an API server with only a bootstrap token. It reads cluster-info without
// verifying the server, checks that it is signed with the token, and reads it again over a connection that is verified
// with these CA certificates. The returned configuration uses the token.
func Discover(ctx context.Context, server, token string) (*rest.Config, error) {
	id, proof, ok := strings.Cut(token, ".")
	if !ok {
		return nil, errors.New("a bootstrap token has the form ID.SECRET")
	}
	server = strings.TrimSuffix(server, "/")
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	first, err := clusterInfo(ctx, server, nil)
	if err != nil {
		return nil, err
	}
	text := first.Data[infoKey]
	if !signed(text, first.Data[signaturePart+id], proof) {
		return nil, fmt.Errorf("%s: %w", server, ErrNotSigned)
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read the cluster-info of %s: %w", server, err)
	}
	for _, cluster := range config.Clusters {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(cluster.CertificateAuthorityData) {
			break
		}
		again, err := clusterInfo(ctx, server, roots)
		if err != nil {
			return nil, err
		}
		if again.Data[infoKey] != text {
			return nil, fmt.Errorf("the cluster-info of %s changed between two reads", server)
		}
		return &rest.Config{Host: server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData}}, nil
	}
	return nil, fmt.Errorf("the cluster-info of %s has no CA certificates", server)
}

// clusterInfo reads cluster-info. If roots is nil the server is not verified; no secret is sent.
func clusterInfo(ctx context.Context, server string, roots *x509.CertPool) (*corev1.ConfigMap, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+infoPath, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxInfo))
	if err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read cluster-info: %s answers %s", server, answer.Status)
	}
	info := &corev1.ConfigMap{}
	if err := json.Unmarshal(body, info); err != nil {
		return nil, fmt.Errorf("read cluster-info: %w", err)
	}
	return info, nil
}

// signed verifies a JWS with detached payload.
func signed(text, signature, proof string) bool {
	head, tail, ok := strings.Cut(signature, "..")
	got, err := base64.RawURLEncoding.DecodeString(tail)
	if !ok || err != nil || text == "" {
		return false
	}
	header, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil || !strings.Contains(string(header), `"alg":"HS256"`) {
		return false
	}
	mac := hmac.New(sha256.New, []byte(proof))
	mac.Write([]byte(head + "." + base64.RawURLEncoding.EncodeToString([]byte(text))))
	return hmac.Equal(got, mac.Sum(nil))
}
