package credentialplugins

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Options say where the plugins are.
type Options struct {
	// Config is a file with a CredentialProviderConfig, or a directory of such. Directory has the programs.
	Config, Directory string
	// Token returns a token of a pod's service account for an audience.
	Token func(ctx context.Context, pod *corev1.Pod, audience string) (string, error)
	// Account returns the service account of a pod.
	Account func(ctx context.Context, pod *corev1.Pod) (*corev1.ServiceAccount, error)
	Logger  *slog.Logger
}

// Plugins are the plugins of a node.
type Plugins struct {
	Options
	plugins []*plugin
}

// Load reads the configuration, and finds the programs.
func Load(o Options) (*Plugins, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	all, err := readConfig(o.Config)
	if err == nil {
		err = check(all)
	}
	p := &Plugins{Options: o}
	if err == nil {
		p.plugins, err = programs(o.Directory, all)
	}
	return p, err
}

// Credentials returns the credentials that plugins have for a pod's image, those of the first plugin first.
func (p *Plugins) Credentials(ctx context.Context, pod *corev1.Pod, image string) []container.Credential {
	name := repository(image)
	var all []container.Credential
	for _, one := range p.plugins {
		if !slices.ContainsFunc(one.MatchImages, func(pattern string) bool { return matches(pattern, name) }) {
			continue
		}
		some, err := p.ask(ctx, one, pod, name)
		if err != nil {
			p.Logger.Error("credentials of a registry cannot be had from a plugin", "plugin", one.Name, "image", image, "pod", pod.Namespace+"/"+pod.Name, "err", err)
			continue
		}
		all = append(all, some...)
	}
	return all
}

// ask returns what a plugin has for an image, from its last answer if that is still valid.
func (p *Plugins) ask(ctx context.Context, one *plugin, pod *corev1.Pod, image string) ([]container.Credential, error) {
	q := question{image: image}
	if one.TokenAttributes != nil {
		if asks, err := p.identify(ctx, one, pod, &q); err != nil || !asks {
			return nil, err
		}
	}
	a, err := one.answer(ctx, &q, time.Now)
	if err != nil {
		return nil, err
	}
	var all []container.Credential
	for _, pattern := range a.patterns {
		if matches(pattern, image) {
			l := a.logins[pattern]
			all = append(all, container.Credential{Username: l.Username, Password: l.Password})
		}
	}
	return all, nil
}

// errNoAPI is the error of a plugin that needs tokens on a node without an API server.
var errNoAPI = errors.New("service account tokens need an API server")

// identify adds the pod's service account to a question. It returns false if the plugin is not for pods without one.
func (p *Plugins) identify(ctx context.Context, one *plugin, pod *corev1.Pod, q *question) (bool, error) {
	t := one.TokenAttributes
	if pod.Spec.ServiceAccountName == "" {
		return !*t.RequireServiceAccount, nil
	}
	if p.Token == nil || p.Account == nil {
		return false, errNoAPI
	}
	account, err := p.Account(ctx, pod)
	if err != nil {
		return false, err
	}
	if q.token, err = p.Token(ctx, pod, t.ServiceAccountTokenAudience); err != nil {
		return false, err
	}
	return true, q.addAccount(account, t)
}

// order sorts patterns as they are tried: longer ones before their beginnings, and those without stars first.
func order(a, b string) int { return cmp.Compare(b, a) }
