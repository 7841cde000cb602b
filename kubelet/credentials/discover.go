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
	mostInfo      = 1 << 20
)

// ErrNotSigned says that a cluster could not show that it knows a token.
var ErrNotSigned = errors.New("the cluster-info of this server is not signed by the token")

// Discover finds out by a bootstrap token alone which authorities an API server is known by: what it says of itself is believed if it is
// signed by the token, and if the server then answers the same under these authorities. The result reaches it with the token.
func Discover(ctx context.Context, server, token string) (*rest.Config, error) {
	id, proof, ok := strings.Cut(token, ".")
	if !ok {
		return nil, errors.New("a bootstrap token is two words with a dot between")
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
		return nil, fmt.Errorf("the cluster-info of %s: %w", server, err)
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
			return nil, fmt.Errorf("%s does not say twice the same of itself", server)
		}
		return &rest.Config{Host: server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData}}, nil
	}
	return nil, fmt.Errorf("the cluster-info of %s names no authorities", server)
}

// clusterInfo reads what a server says of itself. Without authorities whatever answers is taken, and nothing secret is sent.
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
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostInfo))
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

// signed checks a JWS whose text was left out.
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
