package millrace

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/access"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/extensions"
	"github.com/millrace/millrace/internal/assembly/loops"
	"github.com/millrace/millrace/internal/assembly/nodes"
	"github.com/millrace/millrace/internal/assembly/objects"
	"github.com/millrace/millrace/internal/assembly/plugins"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/assembly/tenants"
	"github.com/millrace/millrace/internal/assembly/web"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/server/allocation"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/webhook"
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// parsed is what options say as text, and what parts share.
type parsed struct {
	*Options
	services []netip.Prefix
	// service is the address of the Service "kubernetes": the first one of the (first) range.
	service  netip.Addr
	pods     []netip.Prefix
	eviction pressure.Thresholds
	metrics  *prometheus.Registry
}

// start makes the parts of a cluster from the options, each from those before it, and starts them in this order.
func start(ctx context.Context, o *Options) (*Cluster, error) {
	p, err := o.parse()
	if err != nil {
		return nil, err
	}
	webOptions, err := p.web()
	if err != nil {
		return nil, err
	}
	at := address.New(p.address())
	kept := storage.New(p.storage())
	who := access.New(p.access(), at, kept)
	steps := plugins.New(p.plugins(), at, kept, who)
	first := objects.New(objects.Options{ServiceAddress: p.service, Logger: o.Logger}, at, kept, who)
	beside := extensions.Options{Usage: len(o.Controllers) > 0, Inward: o.plane.inward, Metrics: p.metrics, Logger: o.Logger}
	more := extensions.New(beside, at, kept, who, steps)
	others := p.newPlanes(at, who)
	if others != nil {
		webOptions.Planes = others
	}
	api := web.New(webOptions, at, kept, who, more)
	running := loops.New(p.loops(), at, who)
	tenants := tenants.New(others, at, running)
	places := nodes.New(p.nodes(), at, who, running)

	c := &Cluster{running: assembly.New(o.Logger), address: at, storage: kept, access: who, web: api, loops: running, planes: others}
	err = c.running.Start(ctx, at, kept, who, steps, first, more, api, running, tenants, places, assembly.Func(running.Run), assembly.Func(api.Announce))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// parse reads what the options say as text.
func (o *Options) parse() (*parsed, error) {
	p := &parsed{Options: o, metrics: prometheus.NewRegistry()}
	var err error
	if p.services, err = allocation.ParseRanges(o.ServiceRange); err != nil {
		return nil, err
	}
	p.service = p.services[0].Addr().Next()
	if p.pods, err = podRanges(o.PodRange); err != nil {
		return nil, err
	}
	if o.Eviction != nil {
		if p.eviction, err = pressure.Parse(o.Eviction); err != nil {
			return nil, fmt.Errorf("eviction: %w", err)
		}
	}
	return p, nil
}

// podRanges parses the address ranges of pods.
func podRanges(text string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		p, err := netip.ParsePrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is not a range for pods, such as 10.244.0.0/16", word)
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *parsed) address() address.Options {
	return address.Options{
		Listen: p.Listen, Advertise: p.Advertise, ExternalHostname: p.Serving.ExternalHostname, Containers: p.Runtime != "", Logger: p.Logger,
	}
}

func (p *parsed) storage() storage.Options {
	e := p.Etcd
	return storage.Options{
		Data: p.Data,
		Etcd: etcd.Options{
			Endpoints: e.Servers, CertFile: e.CertFile, KeyFile: e.KeyFile, CAFile: e.CAFile, DialTimeout: e.StartTimeout, Logger: p.Logger,
		},
		EncryptionFile: p.Encryption.File, ReloadEncryption: p.Encryption.Reload,
		EventTTL: p.EventTTL, RuntimeConfig: p.RuntimeConfig, Uncached: p.Uncached, Window: p.Window, CompactEvery: p.CompactEvery,
		History: journal.History(p.History), SegmentBytes: p.plane.segment, Logger: p.Logger,
	}
}

func (p *parsed) access() access.Options {
	s, a, t, h := p.Serving, p.Authentication, p.Authentication.TokenWebhook, p.AuthorizationWebhook
	o := access.Options{
		Keys: p.Keys, Hosts: p.Hosts, ServiceAddress: p.service,
		Serving: access.Pair{CertFile: s.CertFile, KeyFile: s.KeyFile}, Proxy: access.Pair(s.Proxy),
		Kubelets:  access.Pair{CertFile: s.Kubelets.CertFile, KeyFile: s.Kubelets.KeyFile},
		OnlyGiven: s.OnlyGiven, ClientCAFile: s.ClientCAFile, ProxyCAFile: a.ProxyCAFile, KubeletCAFile: s.KubeletCAFile,
		TLS:    access.TLS{MinVersion: s.TLS.MinVersion, CipherSuites: s.TLS.CipherSuites, Curves: s.TLS.Curves},
		Tokens: access.Tokens(s.Tokens), TokenFile: p.TokenFile,
		ConfigFile: a.ConfigFile, OIDC: access.OIDC(a.OIDC), NoAnonymous: a.NoAnonymous,
		// The webhook checks half as many tokens at the same time as there are requests: tokens of other sources do not
		// need it.
		TokenWebhook: webhook.TokenOptions{
			ConfigFile: t.ConfigFile, Version: t.Version, Keep: t.Keep, Most: web.Seats(s.MaxInFlight, s.MaxMutatingInFlight) / 2,
		},
		FrontProxy: auth.FrontProxy{
			Names: a.Proxy.Names, UserHeaders: a.Proxy.UserHeaders, UIDHeaders: a.Proxy.UIDHeaders, GroupHeaders: a.Proxy.GroupHeaders,
			ExtraPrefixes: a.Proxy.ExtraPrefixes,
		},
		Modes: p.Authorization, ModesFile: p.AuthorizationConfig, ABACFile: p.AuthorizationPolicyFile,
		Webhook:  webhook.AuthorizerOptions{ConfigFile: h.ConfigFile, Version: h.Version, KeepAllowed: h.KeepAllowed, KeepRefused: h.KeepRefused},
		OwnNodes: p.ownNodes(), Metrics: p.metrics, Logger: p.Logger,
	}
	if o.Keys == "" && p.Data != "" {
		o.Keys = filepath.Join(p.Data, "pki")
	}
	for _, n := range s.TLS.Named {
		o.TLS.Named = append(o.TLS.Named, access.NamedPair(n))
	}
	return o
}

func (p *parsed) plugins() plugins.Options {
	a := p.Admission
	accounts := p.ControllersElsewhere // without anybody who makes service accounts, the plugin ServiceAccount would reject all pods
	if len(p.Controllers) > 0 {
		accounts = loops.MakesAccounts(p.Controllers)
	}
	disable := a.Disable
	if p.plane.inward {
		disable = append(slices.Clip(disable), "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
	}
	return plugins.Options{
		Enable: a.Enable, Disable: disable, Inward: p.plane.inward, MostObjects: p.plane.objects, MostBytes: p.plane.bytes,
		ConfigFile: a.ConfigFile, NotReadySeconds: a.NotReadySeconds, UnreachableSeconds: a.UnreachableSeconds,
		ServiceAccounts: accounts, ServiceRanges: p.services, NodePorts: allocation.PortRange(p.NodePorts), Metrics: p.metrics, Logger: p.Logger,
	}
}

func (p *parsed) web() (web.Options, error) {
	s := p.Serving
	events, err := p.Audit.options()
	return web.Options{
		MaxInFlight: s.MaxInFlight, MaxMutatingInFlight: s.MaxMutatingInFlight, NoFairness: s.NoFairness,
		RequestTimeout: s.RequestTimeout, MinRequestTimeout: s.MinRequestTimeout, BookmarkPeriod: s.BookmarkPeriod,
		NoProfiling: s.NoProfiling, Inward: p.plane.inward, Page: p.Page, Privileged: p.AllowPrivileged, ShutdownDelay: s.ShutdownDelay, Headers: web.Headers(s.Headers),
		Kubelets: web.Kubelets{Timeout: s.Kubelets.Timeout, AddressTypes: s.Kubelets.AddressTypes}, Audit: events,
		SchedulerElsewhere: p.NoScheduler, ControllersElsewhere: len(p.Controllers) == 0, ServiceAddress: p.service,
		Version: Version(), Flags: s.Flags, Features: s.FeatureGates, Metrics: p.metrics, Logger: p.Logger,
	}, err
}

func (p *parsed) loops() loops.Options {
	return loops.Options{
		Controllers: p.Controllers, NoScheduler: p.NoScheduler, PodRanges: p.pods, OwnNodes: p.ownNodes(), Metrics: p.metrics, Logger: p.Logger,
	}
}

func (p *parsed) nodes() nodes.Options {
	return nodes.Options{
		Hollow: p.Nodes, Served: p.plane.inside, Runtime: p.Runtime, Data: p.Data, Root: p.KubeletRoot, Eviction: p.eviction, PodRanges: p.pods, ServiceAddress: p.service,
		CNIConfigurations: p.CNI.ConfigurationDirectory, CNIPlugins: p.CNI.PluginDirectory, Metrics: p.metrics, Logger: p.Logger,
	}
}
