package bootstrap

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// TrustName is the config map in kube-system that tells extension API servers which clients and front proxies to trust.
const TrustName = "extension-apiserver-authentication"

// Trust maintains that config map. What other servers of the cluster have written into it stays.
type Trust struct {
	Registry *registry.Registry
	// Clients are the authorities of clients, Proxies those of front proxies, in PEM. Those that have expired are not
	// published.
	Clients, Proxies func() []byte
	// ProxyNames are the allowed common names of front proxies.
	ProxyNames []string
	// UserHeaders, UIDHeaders, GroupHeaders and ExtraPrefixes are headers in which front proxies say who asks, besides
	// those of this server.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	Logger                                               *slog.Logger
	// Every is how often the config map is checked: a minute by default.
	Every time.Duration
}

// Run maintains the config map until the context ends.
func (t *Trust) Run(ctx context.Context) error {
	return repeat(ctx, cmp.Or(t.Every, checkInterval), t.Ensure, func(err error) { t.Logger.Warn("the authorities could not be published", "error", err) })
}

// Ensure writes what is missing.
func (t *Trust) Ensure(ctx context.Context) error {
	return keepConfigMap(ctx, t.Registry, TrustName, t.complete)
}

// complete adds this server's authorities and names.
func (t *Trust) complete(o *corev1.ConfigMap) {
	bundles := map[string][]byte{"client-ca-file": t.Clients(), "requestheader-client-ca-file": t.Proxies()}
	for key, text := range bundles {
		if merged := mergeBundles(o.Data[key], text, time.Now()); merged != "" {
			o.Data[key] = merged
		}
	}
	if len(bundles["requestheader-client-ca-file"]) == 0 {
		return // this server knows no front proxies
	}
	headers := map[string][]string{
		"requestheader-username-headers":     slices.Concat([]string{"X-Remote-User"}, t.UserHeaders),
		"requestheader-uid-headers":          slices.Concat([]string{"X-Remote-Uid"}, t.UIDHeaders),
		"requestheader-group-headers":        slices.Concat([]string{"X-Remote-Group"}, t.GroupHeaders),
		"requestheader-extra-headers-prefix": slices.Concat([]string{"X-Remote-Extra-"}, t.ExtraPrefixes),
	}
	for key, values := range headers {
		o.Data[key] = mergeLists(o.Data[key], values, strings.EqualFold)
	}
	const names = "requestheader-allowed-names"
	o.Data[names] = mergeLists(o.Data[names], t.ProxyNames, func(a, b string) bool { return a == b })
}

// mergeBundles returns the certificates of two bundles, each once, without those that have expired.
func mergeBundles(present string, more []byte, now time.Time) string {
	var out strings.Builder
	for _, bundle := range [][]byte{[]byte(present), more} {
		for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil || now.After(c.NotAfter) {
				continue
			}
			if text := string(pem.EncodeToMemory(block)); !strings.Contains(out.String(), text) {
				out.WriteString(text)
			}
		}
	}
	return out.String()
}

// mergeLists adds to a JSON list the values of another that it lacks.
func mergeLists(present string, more []string, same func(a, b string) bool) string {
	var all []string
	if json.Unmarshal([]byte(present), &all) != nil {
		all = nil // it was not a list
	}
	for _, v := range more {
		if !slices.ContainsFunc(all, func(known string) bool { return same(known, v) }) {
			all = append(all, v)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("bootstrap: strings cannot be encoded: %v", err))
	}
	return string(text)
}
