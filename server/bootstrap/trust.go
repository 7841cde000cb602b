package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/server/registry"
)

// TrustName is the config map in kube-system that tells extension API servers which clients and front proxies to trust.
const TrustName = "extension-apiserver-authentication"

// Trust maintains that config map. What other servers of the cluster have written into it stays.
type Trust struct {
	Registry *registry.Registry
	// Clients are the authorities of clients, Proxies those of front proxies, in PEM.
	Clients, Proxies func() []byte
	// ProxyNames are the allowed common names of front proxies.
	ProxyNames []string
	Logger     *slog.Logger
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
		o.Data[key] = mergeBundles(o.Data[key], text)
	}
	lists := map[string][]string{
		"requestheader-username-headers": {"X-Remote-User"}, "requestheader-uid-headers": {"X-Remote-Uid"},
		"requestheader-group-headers": {"X-Remote-Group"}, "requestheader-extra-headers-prefix": {"X-Remote-Extra-"},
		"requestheader-allowed-names": t.ProxyNames,
	}
	for key, values := range lists {
		o.Data[key] = mergeLists(o.Data[key], values)
	}
}

// mergeBundles adds to a bundle the certificates of another that it lacks.
func mergeBundles(present string, more []byte) string {
	for block, rest := pem.Decode(more); block != nil; block, rest = pem.Decode(rest) {
		if text := string(pem.EncodeToMemory(block)); !strings.Contains(present, text) {
			present += text
		}
	}
	return present
}

// mergeLists adds to a JSON list the values of another that it lacks.
func mergeLists(present string, more []string) string {
	var all []string
	if json.Unmarshal([]byte(present), &all) != nil {
		all = nil // it was not a list
	}
	for _, v := range more {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("bootstrap: strings cannot be encoded: %v", err))
	}
	return string(text)
}
