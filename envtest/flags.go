package envtest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// defaultFlags are what envtest starts kube-apiserver with.
var defaultFlags = map[string][]string{
	"service-cluster-ip-range":  {"10.0.0.0/24"},
	"allow-privileged":          {"true"},
	"disable-admission-plugins": {"ServiceAccount"},
	"authorization-mode":        {"RBAC"},
}

// withoutMeaning are flags of kube-apiserver that suites set, and that change nothing here.
var withoutMeaning = []string{
	"advertise-address", "emulated-version", "enable-admission-plugins", "feature-gates", "insecure-port", "log-flush-frequency",
	"logging-format", "profiling", "runtime-config", "v", "vmodule", "watch-cache-sizes",
}

// flag sets an option from the words of a flag: its values, with those separated by commas taken apart.
type flag func(o *millrace.Options, words []string) error

var flags = map[string]flag{
	"authorization-mode":               func(o *millrace.Options, words []string) error { o.Authorization = words; return nil },
	"service-cluster-ip-range":         func(o *millrace.Options, words []string) error { o.ServiceRange = strings.Join(words, ","); return nil },
	"disable-admission-plugins":        withoutPlugins,
	"allow-privileged":                 boolean(func(o *millrace.Options) *bool { return &o.AllowPrivileged }),
	"token-auth-file":                  text(func(o *millrace.Options) *string { return &o.TokenFile }),
	"cert-dir":                         text(func(o *millrace.Options) *string { return &o.Keys }),
	"client-ca-file":                   text(func(o *millrace.Options) *string { return &o.Serving.ClientCAFile }),
	"tls-cert-file":                    text(func(o *millrace.Options) *string { return &o.Serving.CertFile }),
	"tls-private-key-file":             text(func(o *millrace.Options) *string { return &o.Serving.KeyFile }),
	"service-account-issuer":           list(func(o *millrace.Options) *[]string { return &o.Serving.Tokens.Issuers }),
	"service-account-key-file":         list(func(o *millrace.Options) *[]string { return &o.Serving.Tokens.KeyFiles }),
	"service-account-signing-key-file": text(func(o *millrace.Options) *string { return &o.Serving.Tokens.SigningKeyFile }),
	"api-audiences":                    list(func(o *millrace.Options) *[]string { return &o.Serving.Tokens.Audiences }),
	"max-requests-inflight":            number(func(o *millrace.Options) *int { return &o.Serving.MaxInFlight }),
	"max-mutating-requests-inflight":   number(func(o *millrace.Options) *int { return &o.Serving.MaxMutatingInFlight }),
	"request-timeout": func(o *millrace.Options, words []string) (err error) {
		o.Serving.RequestTimeout, err = time.ParseDuration(last(words))
		return err
	},
	"min-request-timeout": func(o *millrace.Options, words []string) error {
		seconds, err := strconv.Atoi(last(words))
		o.Serving.MinRequestTimeout = time.Duration(seconds) * time.Second
		return err
	},
	"bind-address": func(o *millrace.Options, words []string) error {
		_, port, err := net.SplitHostPort(o.Listen)
		o.Listen = net.JoinHostPort(last(words), port)
		return err
	},
	"secure-port": func(o *millrace.Options, words []string) error {
		host, _, err := net.SplitHostPort(o.Listen)
		o.Listen = net.JoinHostPort(host, last(words))
		return err
	},
	"etcd-servers": func(o *millrace.Options, words []string) error { o.Etcd.Servers = words; return nil },
}

// apply sets what the flags say.
func (a *Arguments) apply(o *millrace.Options) error {
	for _, name := range a.keys(defaultFlags) {
		given := a.Get(name).Get(defaultFlags[name])
		set, known := flags[name]
		switch {
		case given == nil || slices.Contains(withoutMeaning, name):
			continue
		case !known:
			return fmt.Errorf("kube-apiserver's flag --%s is not known here; there are %s", name, strings.Join(slices.Sorted(maps.Keys(flags)), ", "))
		}
		if len(given) == 0 {
			given = []string{"true"}
		}
		if err := set(o, strings.Split(strings.Join(given, ","), ",")); err != nil {
			return fmt.Errorf("--%s=%s: %w", name, strings.Join(given, ","), err)
		}
	}
	return nil
}

// withoutPlugins turns admission off. Without the plugin ServiceAccount pods need no account.
func withoutPlugins(o *millrace.Options, words []string) error {
	o.ControllersElsewhere = true
	for _, name := range words {
		switch name {
		case "ServiceAccount":
			o.ControllersElsewhere = false
		case "":
		default:
			return fmt.Errorf("%s cannot be disabled, only ServiceAccount can", name)
		}
	}
	return nil
}

func boolean(of func(*millrace.Options) *bool) flag {
	return func(o *millrace.Options, words []string) (err error) {
		*of(o), err = strconv.ParseBool(last(words))
		return err
	}
}

func text(of func(*millrace.Options) *string) flag {
	return func(o *millrace.Options, words []string) error {
		*of(o) = last(words)
		return nil
	}
}

func list(of func(*millrace.Options) *[]string) flag {
	return func(o *millrace.Options, words []string) error {
		*of(o) = words
		return nil
	}
}

func number(of func(*millrace.Options) *int) flag {
	return func(o *millrace.Options, words []string) (err error) {
		*of(o), err = strconv.Atoi(last(words))
		return err
	}
}

func last(words []string) string { return words[len(words)-1] }
