package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
)

const (
	// answerTimeout is how long an issuer may take for an answer.
	answerTimeout = 30 * time.Second
	// longestAnswer bounds what is read of it.
	longestAnswer = 4 << 20
	wellKnown     = "/.well-known/openid-configuration"
)

// newClient makes a client that believes an authority, or those of the machine if there is none.
func newClient(authority string) (*http.Client, error) {
	var pool *x509.CertPool
	if authority != "" {
		var err error
		if pool, err = cert.NewPoolFromBytes([]byte(authority)); err != nil {
			return nil, fmt.Errorf("Failed to read the CA contents: %w", err)
		}
	}
	return &http.Client{
		Timeout:       answerTimeout,
		CheckRedirect: secureRedirect,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second,
		},
	}, nil
}

// mostRedirects bounds how often an issuer sends a request elsewhere.
const mostRedirects = 10

var errRedirect = errors.New("the issuer redirects to a URL that is not https, or too often")

func secureRedirect(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != "https" || len(via) >= mostRedirects {
		return errRedirect
	}
	return nil
}

// get reads what is at a URL. An access token may prove who asks.
func get(ctx context.Context, client *http.Client, url, accessToken string) ([]byte, error) {
	if !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("%q is not https", url)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if accessToken != "" {
		r.Header.Set("Authorization", "Bearer "+accessToken)
	}
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unable to read response body: %w", err)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", res.Status, abbreviated(text))
	case len(text) > longestAnswer:
		return nil, fmt.Errorf("the answer of %s is longer than %d bytes", url, longestAnswer)
	}
	return text, nil
}

// abbreviated is the begin of a text, for an error.
func abbreviated(text []byte) string {
	const most = 200
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// discover finds out where an issuer's keys are. The document may be elsewhere than the issuer's URL says.
func discover(ctx context.Context, client *http.Client, issuer, at string) (keys string, err error) {
	if at == "" {
		at = strings.TrimSuffix(issuer, "/") + wellKnown
	}
	text, err := get(ctx, client, at, "")
	if err != nil {
		return "", err
	}
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return "", fmt.Errorf("oidc: failed to decode provider discovery object: %w", err)
	}
	switch {
	case about.Issuer != issuer:
		return "", fmt.Errorf("oidc: issuer did not match the issuer returned by provider, expected %q got %q", issuer, about.Issuer)
	case about.Keys == "":
		return "", errors.New("provider did not return JWKS URL")
	}
	return about.Keys, nil
}
