// Command chart writes what a Helm chart renders to, for clusters whose owners
// have no helm at hand:
//
//	go run . ../../charts/quarry --namespace quarry-system --set image.repository=quarry | kubectl apply --server-side -f -
//
// It uses Helm's own engine and its own check of values.schema.json. Hooks and
// notes are left out.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
)

// texts is a flag that may be given more than once.
type texts []string

func (t *texts) String() string     { return strings.Join(*t, ",") }
func (t *texts) Set(v string) error { *t = append(*t, v); return nil }

type options struct {
	chart     string
	release   string
	namespace string
	create    bool
	files     texts
	sets      texts
}

const namespaceManifest = `---
apiVersion: v1
kind: Namespace
metadata:
  name: %s
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

func main() {
	opts, err := parse(os.Args[1:])
	if err == nil {
		err = render(os.Stdout, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// parse accepts the chart's folder before, between or after the flags.
func parse(args []string) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	flags.StringVar(&opts.release, "release", "quarry", "name of the release")
	flags.StringVar(&opts.namespace, "namespace", "quarry-system", "namespace of the release")
	flags.BoolVar(&opts.create, "create-namespace", false, "write the namespace first, with the restricted pod security standard")
	flags.Var(&opts.files, "values", "file of values; may be repeated, the last one wins")
	flags.Var(&opts.sets, "set", "key=value; may be repeated, the last one wins")
	for {
		if err := flags.Parse(args); err != nil {
			return opts, err
		}
		if flags.NArg() == 0 {
			break
		}
		if opts.chart != "" {
			return opts, fmt.Errorf("two charts, %q and %q: name one folder", opts.chart, flags.Arg(0))
		}
		opts.chart, args = flags.Arg(0), flags.Args()[1:]
	}
	if opts.chart == "" {
		return opts, fmt.Errorf("no chart: name its folder, for instance charts/quarry")
	}
	return opts, nil
}

// render writes the chart's objects in the order in which Helm installs them.
func render(out io.Writer, opts options) error {
	chart, err := loader.Load(opts.chart)
	if err != nil {
		return fmt.Errorf("load %s: %w", opts.chart, err)
	}
	values, err := userValues(opts)
	if err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: opts.release, Namespace: opts.namespace, Revision: 1, IsInstall: true}
	merged, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, merged)
	if err != nil {
		return err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	if opts.create {
		if _, err := fmt.Fprintf(out, namespaceManifest, opts.namespace); err != nil {
			return err
		}
	}
	for _, m := range manifests {
		if _, err := fmt.Fprintf(out, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content)); err != nil {
			return err
		}
	}
	return nil
}

func userValues(opts options) (map[string]any, error) {
	values := map[string]any{}
	for _, name := range opts.files {
		read, err := chartutil.ReadValuesFile(name)
		if err != nil {
			return nil, fmt.Errorf("--values %s: %w", name, err)
		}
		values = chartutil.CoalesceTables(read, values)
	}
	for _, set := range opts.sets {
		if err := strvals.ParseInto(set, values); err != nil {
			return nil, fmt.Errorf("--set %s: %w", set, err)
		}
	}
	return values, nil
}
