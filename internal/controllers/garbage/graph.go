package garbage

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/kinds"
)

// identity identifies an object on the server.
type identity struct {
	kind      *kinds.Kind
	namespace string
	name      string
	uid       types.UID
}

// fact is what the graph needs of a cached object.
type fact struct {
	identity
	owners   []metav1.OwnerReference
	deleting bool
	// foreground and orphan are set if the object has the finalizer of that name.
	foreground, orphan bool
}

// node is an object, or an owner that dependents refer to.
type node struct {
	fact
	observed   bool     // a cache has shown it; otherwise fact is empty
	claimed    identity // its identity according to the first dependent
	dependents map[types.UID]*node
}

func (f *fact) waiting() bool   { return f.deleting && f.foreground }
func (f *fact) orphaning() bool { return f.deleting && f.orphan }

// graph has the owners and dependents. Its methods return the UIDs of objects that may have become garbage.
type graph struct {
	mu    sync.Mutex // guards nodes and all in them
	nodes map[types.UID]*node
}

func newGraph() *graph { return &graph{nodes: map[types.UID]*node{}} }

// observe adds or updates a cached object. resolve finds the kind of an owner.
func (g *graph) observe(f fact, resolve func(metav1.OwnerReference, identity) (identity, bool)) (suspects []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[f.uid]
	if n == nil {
		n = &node{}
		g.nodes[f.uid] = n
	}
	before, known := n.fact, n.observed
	n.fact, n.observed = f, true
	if !known {
		// Dependents that refer to this UID with another kind or name refer to nothing.
		for uid, dependent := range n.dependents {
			if !names(dependent.owners, f.identity) {
				suspects = append(suspects, uid)
			}
		}
	}
	if !slices.EqualFunc(before.owners, f.owners, sameOwner) {
		suspects = append(suspects, g.relinkLocked(n, before.owners, resolve)...)
	}
	switch {
	case f.waiting() && !before.waiting():
		suspects = append(suspects, f.uid)
		suspects = append(suspects, uids(n.dependents)...)
	case f.orphaning() && !before.orphaning():
		suspects = append(suspects, f.uid)
	}
	return suspects
}

// relinkLocked updates n's links to its owners. An owner that no cache has shown is suspect: it may never have existed.
func (g *graph) relinkLocked(n *node, before []metav1.OwnerReference, resolve func(metav1.OwnerReference, identity) (identity, bool)) (suspects []types.UID) {
	for _, ref := range before {
		if !slices.ContainsFunc(n.owners, func(o metav1.OwnerReference) bool { return o.UID == ref.UID }) {
			suspects = append(suspects, g.unlinkLocked(ref.UID, n.uid)...)
		}
	}
	for _, ref := range n.owners {
		owner := g.nodes[ref.UID]
		if owner == nil {
			owner = &node{}
			g.nodes[ref.UID] = owner
		}
		if owner.dependents == nil {
			owner.dependents = map[types.UID]*node{}
		}
		owner.dependents[n.uid] = n
		id, ok := resolve(ref, n.identity)
		switch {
		case !ok, owner.observed && owner.identity.differs(id):
			suspects = append(suspects, n.uid) // so that an event is recorded
		case !owner.observed && owner.claimed.name == "":
			owner.claimed = id
			suspects = append(suspects, ref.UID)
		case !owner.observed && owner.claimed.differs(id):
			suspects = append(suspects, n.uid)
		case owner.waiting():
			suspects = append(suspects, n.uid, ref.UID)
		}
		if len(before) > 0 {
			suspects = append(suspects, n.uid) // it may have lost its last owner
		}
	}
	return suspects
}

// unlinkLocked removes a dependent from its owner, which may have waited for that.
func (g *graph) unlinkLocked(owner, dependent types.UID) []types.UID {
	n := g.nodes[owner]
	if n == nil {
		return nil
	}
	delete(n.dependents, dependent)
	if len(n.dependents) == 0 && !n.observed {
		delete(g.nodes, owner)
		return nil
	}
	if n.waiting() {
		return []types.UID{owner}
	}
	return nil
}

// remove removes an object that is gone. Its dependents are suspect, and owners may have waited for it.
func (g *graph) remove(uid types.UID) (suspects []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return nil
	}
	suspects = uids(n.dependents)
	for _, ref := range n.owners {
		suspects = append(suspects, g.unlinkLocked(ref.UID, uid)...)
	}
	if len(n.dependents) == 0 {
		delete(g.nodes, uid)
		return suspects
	}
	// The controller may make more dependents before it sees the deletion, so the owner is verified again for the next
	// one.
	n.claimed, n.observed, n.fact = identity{}, false, fact{}
	return suspects
}

// view is a copy of a node and its dependents.
type view struct {
	fact
	observed   bool
	claimed    identity // its identity according to dependents, if no cache has shown it
	dependents []fact
}

func (g *graph) look(uid types.UID) (view, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return view{}, false
	}
	v := view{fact: n.fact, observed: n.observed, claimed: n.claimed}
	for _, dependent := range n.dependents {
		v.dependents = append(v.dependents, dependent.fact)
	}
	return v, true
}

// present returns the cached owner, if it has this identity.
func (g *graph) present(id identity) (fact, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	if n == nil || !n.observed || n.identity.differs(id) {
		return fact{}, false
	}
	return n.fact, true
}

// elsewhere reports whether an object with this UID is in another namespace.
func (g *graph) elsewhere(id identity) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	return n != nil && n.observed && n.namespace != id.namespace
}

// forget removes all objects of a kind that the server no longer has.
func (g *graph) forget(resource schema.GroupResource) (suspects []types.UID) {
	g.mu.Lock()
	var gone []types.UID
	for uid, n := range g.nodes {
		if n.observed && n.kind.Resource.GroupResource() == resource {
			gone = append(gone, uid)
		}
	}
	g.mu.Unlock()
	for _, uid := range gone {
		suspects = append(suspects, g.remove(uid)...)
	}
	return suspects
}

// differs reports whether two identities with one UID are different objects.
func (id identity) differs(other identity) bool {
	if id.kind == nil || other.kind == nil {
		return id.kind != other.kind
	}
	return id.kind.Resource.GroupResource() != other.kind.Resource.GroupResource() ||
		id.namespace != other.namespace || id.name != other.name
}

// names reports whether one of the references may refer to the identity.
func names(refs []metav1.OwnerReference, id identity) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool {
		return ref.UID == id.uid && ref.Name == id.name && ref.Kind == id.kind.Kind
	})
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && blocks(a) == blocks(b)
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func uids(nodes map[types.UID]*node) []types.UID {
	out := make([]types.UID, 0, len(nodes))
	for uid := range nodes {
		out = append(out, uid)
	}
	return out
}
