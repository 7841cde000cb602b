package garbage

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/internal/kinds"
)

// An identity is how an object is found on the server.
type identity struct {
	kind      *kinds.Kind
	namespace string
	name      string
	uid       types.UID
}

// A fact is what the graph needs to know of an object that a cache shows.
type fact struct {
	identity
	owners   []metav1.OwnerReference
	deleting bool
	// foreground and orphan say which finalizer it has: one that holds it until
	// its dependents are gone, or until they are let go.
	foreground, orphan bool
}

// A node is an object, or one that others name as their owner.
type node struct {
	fact
	observed   bool     // a cache has shown it; else fact is empty
	claimed    identity // what the first dependent said that it is
	dependents map[types.UID]*node
}

func (f *fact) waiting() bool   { return f.deleting && f.foreground }
func (f *fact) orphaning() bool { return f.deleting && f.orphan }

// A graph knows who owns whom. Its methods return the uids of the objects that
// a change calls into question.
type graph struct {
	mu    sync.Mutex // guards nodes and all in them
	nodes map[types.UID]*node
}

func newGraph() *graph { return &graph{nodes: map[types.UID]*node{}} }

// observe takes in what a cache shows. resolve finds the kind of an owner.
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
		// Who has named it as an owner under other coordinates did so in vain.
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

// relinkLocked enters n with its owners. An owner that no cache has shown is
// suspect: it may never have existed.
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
			suspects = append(suspects, n.uid) // it will be told why
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

// unlinkLocked takes a dependent from its owner, which may have waited for that.
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

// remove takes out an object that is gone. Its dependents are suspect, and
// owners may have waited for it.
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
	// Whoever made the dependents may make more before it hears of this, so the next one's claim is looked into as the
	// first one's was.
	n.claimed, n.observed, n.fact = identity{}, false, fact{}
	return suspects
}

// A view is a node as it is now, with copies of its dependents.
type view struct {
	fact
	observed   bool
	claimed    identity // what dependents say it is, if no cache has shown it
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

// present returns what a cache shows of an owner, if it is the one that a
// reference means.
func (g *graph) present(id identity) (fact, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id.uid]
	if n == nil || !n.observed || n.identity.differs(id) {
		return fact{}, false
	}
	return n.fact, true
}

// elsewhere says that an object of that uid is known in another namespace.
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

// differs says that two identities of one uid do not mean the same object.
func (id identity) differs(other identity) bool {
	if id.kind == nil || other.kind == nil {
		return id.kind != other.kind
	}
	return id.kind.Resource.GroupResource() != other.kind.Resource.GroupResource() ||
		id.namespace != other.namespace || id.name != other.name
}

// names says that one of the references could mean the identity.
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
