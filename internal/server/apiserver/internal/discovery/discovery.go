package discovery

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/resource"
)

// Documents serves discovery. The documents are made from the catalogue, and again when it has changed.
type Documents struct {
	Catalogue *resource.Catalogue
	Address   string
	// Others returns the group versions of other servers, and a number that changes with them; nil if there are none.
	Others func() (version int, all []Group)
	// Unreadable returns why definitions of custom resources cannot be read, by their names; nil if there are none.
	Unreadable func() map[string]error

	mu         sync.Mutex // guards everything below
	version    [2]int
	unreadable map[string]string // the groups and what is wrong with them
	made       *discovery
}

// Group is a group version that another server serves.
type Group struct {
	schema.GroupVersion
	Priority  resource.Priority
	Discovery discoveryv2.APIVersionDiscovery
}

// discovery is the content of all discovery documents.
type discovery struct {
	groups    []metav1.APIGroup // without the core group
	resources map[schema.GroupVersion]*metav1.APIResourceList
	others    map[schema.GroupVersion]Group
	broken    map[string]string // groups of which not all is known, and why
	core      aggregated
	named     aggregated
}

// aggregated is a document of all groups, with its ETag.
type aggregated struct {
	body []byte
	etag string
}

func (c *Documents) discover() *discovery {
	version := [2]int{c.Catalogue.Version()}
	var others []Group
	if c.Others != nil {
		version[1], others = c.Others()
	}
	broken := c.broken()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil || c.version != version || !maps.Equal(c.unreadable, broken) {
		c.made, c.version, c.unreadable = makeDiscovery(c.Catalogue.Kinds(), append(others, incomplete(broken)...)), version, broken
		c.made.broken = broken
	}
	return c.made
}

// unreadable is shown as a version of each group with a definition that cannot be read, whose own versions are not
// known. It is stale, so that clients which need to know all kinds, such as those that empty namespaces, know that they
// do not.
const unreadable = "unreadable"

// broken returns what is wrong with the groups of definitions that cannot be read.
func (c *Documents) broken() map[string]string {
	if c.Unreadable == nil {
		return nil
	}
	all := c.Unreadable()
	out := make(map[string]string, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, group, _ := strings.Cut(name, ".")
		if out[group] != "" {
			out[group] += "; "
		}
		out[group] += fmt.Sprintf("the definition %s cannot be read: %v", name, all[name])
	}
	return out
}

func incomplete(broken map[string]string) (out []Group) {
	for group := range broken {
		out = append(out, Group{
			GroupVersion: schema.GroupVersion{Group: group, Version: unreadable},
			Discovery:    discoveryv2.APIVersionDiscovery{Version: unreadable, Freshness: discoveryv2.DiscoveryFreshnessStale},
		})
	}
	return out
}

// Groups returns all groups but the core group.
func (c *Documents) Groups() []metav1.APIGroup { return c.discover().groups }

func makeDiscovery(kinds []*resource.Kind, others []Group) *discovery {
	d := &discovery{resources: map[schema.GroupVersion]*metav1.APIResourceList{}, others: map[schema.GroupVersion]Group{}}
	stored := map[*resource.Identity]string{}
	for _, k := range kinds {
		if _, later := stored[k.Identity]; !later { // objects are stored in the first of several versions
			stored[k.Identity] = storageHash(k.GroupVersionKind())
		}
		for _, f := range k.Served() {
			list := d.list(f.GroupVersion())
			list.APIResources = append(list.APIResources, resourcesOf(f, stored[k.Identity])...)
		}
	}
	byGroup := map[string][]schema.GroupVersion{}
	for gv, list := range d.resources {
		slices.SortStableFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(mainOf(a), mainOf(b)) })
		byGroup[gv.Group] = append(byGroup[gv.Group], gv)
	}
	for _, g := range others {
		d.others[g.GroupVersion] = g
		if d.resources[g.GroupVersion] == nil {
			byGroup[g.Group] = append(byGroup[g.Group], g.GroupVersion)
		}
	}
	names := d.order(byGroup)
	var core, named discoveryv2.APIGroupDiscoveryList
	for _, name := range names {
		entry := d.aggregate(name, byGroup[name])
		if name == "" {
			core.Items = append(core.Items, entry)
			continue
		}
		named.Items = append(named.Items, entry)
		d.groups = append(d.groups, groupOf(name, byGroup[name]))
	}
	d.core, d.named = finishAggregate(core), finishAggregate(named)
	return d
}

// priority returns how much a group version is preferred.
func (d *discovery) priority(gv schema.GroupVersion) resource.Priority {
	if g, other := d.others[gv]; other {
		return g.Priority
	}
	return resource.PriorityOf(gv)
}

// order returns the groups by preference, and sorts their versions: clients that look up a kind by a short name take
// the first group. Among versions of the same priority v2 comes before v1, and both before v3beta1.
func (d *discovery) order(byGroup map[string][]schema.GroupVersion) (names []string) {
	rank := map[string]int32{}
	for name, versions := range byGroup {
		names = append(names, name)
		for _, gv := range versions {
			rank[name] = max(rank[name], d.priority(gv).Group)
		}
		slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
			if by := d.priority(b).Version - d.priority(a).Version; by != 0 {
				return int(by)
			}
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank[b], rank[a]), strings.Compare(a, b))
	})
	return names
}

func (d *discovery) list(gv schema.GroupVersion) *metav1.APIResourceList {
	list, ok := d.resources[gv]
	if !ok {
		list = &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
		if gv.Group != "" {
			list.APIVersion = "v1"
		}
		d.resources[gv] = list
	}
	return list
}

func groupOf(name string, versions []schema.GroupVersion) metav1.APIGroup {
	g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name}
	for _, gv := range versions {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// resourcesOf returns a kind's main resource and its subresources.
func resourcesOf(f *resource.Face, storageHash string) []metav1.APIResource {
	k := f.Of
	main := metav1.APIResource{
		Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: f.Kind, Verbs: k.Verbs,
		ShortNames: k.ShortNames, Categories: k.Categories,
	}
	if k.Offers("watch") {
		main.StorageVersionHash = storageHash
	}
	out := []metav1.APIResource{main}
	for _, s := range k.Subresources() {
		kind := s.KindAs(f)
		sub := metav1.APIResource{
			Name: k.Resource + "/" + s.Name, Namespaced: k.Namespaced, Kind: kind.Kind, Verbs: slices.Sorted(slices.Values(s.Verbs)),
		}
		if s.View == nil && kind.GroupVersion() != k.GroupVersion() {
			sub.Group, sub.Version = kind.Group, kind.Version
		}
		out = append(out, sub)
	}
	if !k.Custom { // their status comes before their scale
		slices.SortFunc(out[1:], func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// mainOf returns the name of the main resource of a resource or subresource.
func mainOf(r metav1.APIResource) string {
	name, _, _ := strings.Cut(r.Name, "/")
	return name
}

// storageHash changes when the storage version of a kind changes.
func storageHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

func (d *discovery) aggregate(name string, versions []schema.GroupVersion) discoveryv2.APIGroupDiscovery {
	g := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, gv := range versions {
		if other, ok := d.others[gv]; ok {
			g.Versions = append(g.Versions, other.Discovery)
			continue
		}
		v := discoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
		at := map[string]int{}
		for _, r := range d.resources[gv].APIResources {
			parent, sub, isSub := strings.Cut(r.Name, "/")
			kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind}
			if r.Version != "" {
				kind.Group, kind.Version = r.Group, r.Version
			}
			if isSub {
				p := &v.Resources[at[parent]]
				p.Subresources = append(p.Subresources, discoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
				continue
			}
			scope := discoveryv2.ScopeCluster
			if r.Namespaced {
				scope = discoveryv2.ScopeNamespace
			}
			at[r.Name] = len(v.Resources)
			v.Resources = append(v.Resources, discoveryv2.APIResourceDiscovery{
				Resource: r.Name, ResponseKind: kind, Scope: scope, SingularResource: r.SingularName,
				Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
			})
		}
		g.Versions = append(g.Versions, v)
	}
	return g
}

func finishAggregate(l discoveryv2.APIGroupDiscoveryList) aggregated {
	l.Kind, l.APIVersion = "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"
	if l.Items == nil {
		l.Items = []discoveryv2.APIGroupDiscovery{}
	}
	b, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("apiserver: discovery cannot be encoded: %v", err))
	}
	return aggregated{append(b, '\n'), fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(b)))}
}

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func wantsAggregated(r *http.Request) bool {
	for _, w := range negotiate.ParseAccept(strings.Join(r.Header.Values("Accept"), ",")) {
		switch {
		case w.Kind != resource.JSONType:
		case w.Params["as"] == "APIGroupDiscoveryList" && w.Params["g"] == "apidiscovery.k8s.io" && w.Params["v"] == "v2":
			return true
		case w.Params["as"] == "":
			return false
		}
	}
	return false
}

func (a aggregated) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", a.etag)
	w.Header().Set("Vary", "Accept")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	answer.WriteBytes(w, aggregatedType, http.StatusOK, a.body)
}

// bare returns the groups as list members, which repeat kind and apiVersion.
func (d *discovery) bare() []metav1.APIGroup {
	out := slices.Clone(d.groups)
	for i := range out {
		out[i].TypeMeta = metav1.TypeMeta{}
	}
	return out
}

// Serve answers /api, /apis and the paths one or two levels below.
func (c *Documents) Serve(w http.ResponseWriter, r *http.Request, parts []string) error {
	d := c.discover()
	aggregate := len(parts) == 1 && wantsAggregated(r)
	switch {
	case parts[0] == "api" && aggregate:
		d.core.serve(w, r)
	case parts[0] == "apis" && aggregate:
		d.named.serve(w, r)
	case parts[0] == "api" && len(parts) == 1:
		return answer.SendDocument(w, r, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: c.Address}}}, false)
	case parts[0] == "apis" && len(parts) == 1:
		return answer.SendDocument(w, r, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: d.bare()}, false)
	case parts[0] == "api" && len(parts) == 2:
		return d.sendResources(w, r, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 2:
		for _, g := range d.groups {
			if g.Name == parts[1] {
				return answer.SendDocument(w, r, &g, false)
			}
		}
		http.NotFound(w, r)
	case parts[0] == "apis" && len(parts) == 3:
		return d.sendResources(w, r, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		http.NotFound(w, r)
	}
	return nil
}

func (d *discovery) sendResources(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) error {
	list, ok := d.resources[gv]
	if why := d.broken[gv.Group]; !ok && gv.Version == unreadable && why != "" {
		return apierrors.NewServiceUnavailable(why)
	}
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	return answer.SendDocument(w, r, list, false)
}
