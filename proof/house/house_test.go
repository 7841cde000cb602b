package house_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace"

// root is the directory of the module.
const root = "../.."

// arrows lists, for each top directory, the directories that it may import. A directory that is not listed is an error,
// and so is an import that is not listed: an import between directories is a decision.
var arrows = map[string][]string{
	"cmd": {"", "assembly/objects", "planes", "server", "controllers", "scheduler", "kubelet", "network", "loop", "informer", "queue", "faults", "internal"},
	"":    {"assembly", "planes", "server", "controllers", "kubelet", "internal"},

	// The parts of a cluster, from the last one to the first.
	"assembly/nodes":      {"assembly/list", "assembly/loops", "assembly/access", "assembly/address", "assembly/identity", "kubelet", "network", "informer", "loop"},
	"assembly/loops":      {"assembly/list", "assembly/access", "assembly/address", "assembly/identity", "controllers", "scheduler", "server/auth", "loop", "queue"},
	"assembly/tenants":    {"assembly/list", "assembly/loops", "assembly/address", "assembly/identity", "planes", "loop", "internal"},
	"assembly/web":        {"planes", "assembly/list", "assembly/extensions", "assembly/access", "assembly/storage", "assembly/address", "server", "internal"},
	"assembly/extensions": {"assembly/list", "assembly/objects", "assembly/plugins", "assembly/access", "assembly/storage", "assembly/address", "assembly/identity", "metricsapi", "server"},
	"assembly/objects":    {"assembly/list", "assembly/access", "assembly/storage", "assembly/address", "assembly/identity", "server"},
	"assembly/plugins":    {"assembly/list", "assembly/access", "assembly/storage", "assembly/address", "server"},
	"assembly/access":     {"assembly/list", "assembly/storage", "assembly/address", "assembly/identity", "server"},
	"assembly/storage":    {"assembly/list", "server", "internal"},
	"assembly/address":    {"assembly/list", "assembly/identity", "server/inprocess"},
	"assembly/identity":   {"server/auth", "loop"},
	"assembly/list":       {},

	// Other clusters that a cluster runs.
	"planes": {"loop", "informer", "server/auth", "server/pki", "internal"},

	// The server, from top to bottom.
	"server/openapi":     {"server/resource", "internal"},
	"server/metrics":     {"server/apiserver", "server/watchcache"},
	"server/endpoints":   {"server/store"},
	"server/connections": {"server/apiserver", "server/auth", "server/registry", "server/resource"},
	"server/actions":     {"server/apiserver", "server/auth", "server/registry", "server/resource"},
	"server/aggregation": {"server/services", "server/apiserver", "server/auth", "server/follow", "server/registry", "server/resource", "server/store", "server/watchcache", "internal"},
	"server/past":        {"server/apiserver", "server/auth", "server/custom", "server/openapi", "server/registry", "server/resource", "server/store", "server/watchcache", "server/webhook"},
	"server/page":        {"server/auth"},
	"server/note":        {"server/resource"},
	"server/apiserver":   {"cause", "server/audit", "server/auth", "server/fairness", "server/note", "server/registry", "server/resource", "server/store", "server/watchcache", "server/wire", "internal"},
	"server/admission":   {"demand", "server/webhook", "server/auth", "server/follow", "server/registry", "server/resource", "server/store", "server/watchcache", "internal"},
	"server/fairness":    {"server/auth", "server/follow", "server/registry", "server/resource"},
	"server/datadir":     {"server/registry", "server/resource", "server/store", "internal"},
	"server/services":    {"server/registry", "server/resource", "server/store", "server/watchcache"},
	"server/webhook":     {"server/services", "server/registry", "server/resource", "server/store", "server/watchcache"},
	"server/custom":      {"server/webhook", "server/follow", "server/registry", "server/resource", "server/store", "server/watchcache", "internal"},
	"server/bootstrap":   {"server/registry", "server/resource"},
	"server/allocation":  {"server/registry", "server/resource", "server/store", "internal"},
	"server/follow":      {"server/registry", "server/resource", "server/store"},
	"server/registry":    {"demand", "server/resource", "server/store", "server/watchcache"},
	"server/ownership":   {"server/resource", "internal"},
	"server/wire":        {"server/resource", "server/store", "server/watchcache", "internal"},
	"server/resource":    {"demand", "internal"},
	"server/watchcache":  {"server/store", "internal"},
	"server/store":       {"internal"},
	"server/auth":        {"demand", "server/follow", "server/registry", "server/resource", "server/store", "server/watchcache", "internal"},
	"server/audit":       {"server/auth", "internal"},
	"server/encryption":  {"internal"},
	"server/h2":          {"internal"},
	"server/inprocess":   {"internal"},
	"server/pki":         {"internal"},
	"server/limits":      {"server/registry", "server/resource"},
	"server/outward":     {},

	// The programs that use the API work with any Kubernetes and do not import the server.
	"controllers": {"demand", "loop", "informer", "queue", "cause", "internal"},
	"scheduler":   {"demand", "loop", "informer", "queue", "cause", "internal"},
	"kubelet":     {"demand", "loop", "informer", "queue", "cause", "internal"},

	"network": {"loop", "informer", "queue", "internal"},

	"metricsapi": {},

	// The libraries.
	"loop":     {"informer", "queue", "cause", "internal"},
	"informer": {"watch", "cause", "internal"},
	"queue":    {"cause"},
	"cause":    {},
	"watch":    {},
	"internal": {"demand"},
	"demand":   {}, // the resource requests of pods, computed in one place for all of the above

	// The scheduler for others, with rules of their own.
	"public scheduler": {"scheduler", "loop"},

	// What stands beside the house.
	"millracetest": {"", "informer", "watch"},
	"envtest":      {"", "server/pki"},
	"proof":        {"", "server/store"}, // an etcd for tests
	"examples":     {"loop", "informer", "public scheduler"},
	"faults":       {},
	"bench":        {"server/pki", "server/store"},
	"release":      {},
}

// pkg is one package of the module.
type pkg struct {
	path    string // relative to the module
	doc     bool
	imports []string // without those of tests
}

// packages parses the module's packages.
func packages(t *testing.T) []pkg {
	t.Helper()
	byDirectory := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (strings.HasPrefix(name, ".") && path != root || name == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		directory := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, root+"/")))
		p, ok := byDirectory[directory]
		if !ok {
			p = &pkg{path: directory}
			byDirectory[directory] = p
		}
		p.doc = p.doc || f.Doc != nil
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			p.imports = append(p.imports, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []pkg
	for _, p := range byDirectory {
		out = append(out, *p)
	}
	return out
}

// wings are the directories below internal that are rooms of their own; the small packages beside them are one room
// together.
var wings = []string{"assembly", "server", "controllers", "scheduler", "kubelet", "network", "metricsapi", "demand", "planes"}

// room returns the directory to which a package belongs: its first path element, that of a wing without "internal", and
// below server and assembly the first two.
func room(path string) string {
	whole := path
	if inner, below := strings.CutPrefix(path, "internal/"); below {
		if wing, _, _ := strings.Cut(inner, "/"); slices.Contains(wings, wing) {
			path = inner
		}
	}
	parts := strings.SplitN(path, "/", 3)
	switch {
	case path == ".":
		return ""
	case parts[0] == "scheduler" && !strings.HasPrefix(whole, "internal/"):
		return "public scheduler"
	case path == "assembly":
		return "assembly/list"
	case (parts[0] == "server" || parts[0] == "assembly") && len(parts) > 1:
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if !p.doc {
			t.Errorf("%s has no package doc", p.path)
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.path)
		allowed, known := arrows[from]
		if !known && len(p.imports) > 0 {
			t.Errorf("%s stands in no room of the list of arrows", p.path)
			continue
		}
		for _, i := range p.imports {
			inner, ours := strings.CutPrefix(i, module)
			to := room(or(strings.TrimPrefix(inner, "/"), "."))
			if !ours || to == from {
				continue
			}
			wing, _, _ := strings.Cut(to, "/")
			if !slices.Contains(allowed, to) && !slices.Contains(allowed, wing) {
				t.Errorf("%s may not import %s: there is no arrow from %q to %q", p.path, i, from, to)
			}
		}
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// etcdForTests is the package that runs an etcd server.
const etcdForTests = "internal/server/store/etcd/etcdtest"

func TestForbiddenImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.imports {
			switch {
			case strings.HasPrefix(i, "k8s.io/apiserver/pkg/cel"): // Kubernetes' own words and costs of CEL
			case i == "k8s.io/apiserver/pkg/authentication/user", i == "k8s.io/apiserver/pkg/authorization/authorizer": // what its library asks about permissions
			case i == "k8s.io/apiserver/pkg/warning": // where the rules of custom resources put warnings
			case strings.HasPrefix(i, "k8s.io/kubernetes"), strings.HasPrefix(i, "k8s.io/apiserver"):
				t.Errorf("%s imports %s", p.path, i)
			case i == "k8s.io/client-go/tools/cache" && !strings.HasPrefix(p.path, "informer/"):
				t.Errorf("%s imports client-go's cache, which the informer package replaces", p.path)
			case strings.HasPrefix(i, "go.etcd.io/etcd/server/") && p.path != etcdForTests:
				t.Errorf("%s imports %s: an etcd server runs in tests only, by %s", p.path, i, etcdForTests)
			case i == module+"/"+etcdForTests && !strings.HasPrefix(p.path, "proof/"):
				t.Errorf("%s imports %s, and is no test", p.path, i)
			}
		}
	}
}

func TestThePagesThatPeopleLookForAreThere(t *testing.T) {
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestTheTourLeadsToFunctionsThatExist reads the stops of docs/tour.md, each a file and a function of it.
func TestTheTourLeadsToFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	stops := regexp.MustCompile("`([a-z0-9/_]+\\.go)` · `([A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	if len(stops) != 12 {
		t.Errorf("the tour has %d stops that name a file and a function, want 12", len(stops))
	}
	for _, stop := range stops {
		source, err := os.ReadFile(filepath.Join(root, stop[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + stop[2] + `[\[(]`); !declared.Match(source) {
			t.Errorf("%s does not declare %s", stop[1], stop[2])
		}
	}
}

// TestLinksOfTheDocumentsLeadSomewhere follows the relative links of all documents.
func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), l[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, l[1])
			}
		}
	}
}
