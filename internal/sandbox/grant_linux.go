package sandbox

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/sandbox/landlock"
)

const read = landlock.ReadFile | landlock.ReadDir

// kernelReads tell a runtime about the machine. Of processes, only its own is
// granted, by become.
var kernelReads = []string{
	"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems",
	"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/max_map_count", "/proc/sys/kernel/osrelease",
	"/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage",
}

// etcReads are tables without secrets. Tier 1 has its own.
var etcReads = []string{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf"}

// grants lists what the program may do with files.
func grants(o order) []landlock.Grant {
	all := []landlock.Grant{
		{Path: o.Scratch, Access: landlock.Tree, Required: true},
		{Path: o.Program, Access: landlock.ReadFile | landlock.Execute, Required: true},
	}
	for i, d := range devices {
		access := landlock.ReadFile
		if i < 3 {
			access |= landlock.Write
		}
		all = append(all, landlock.Grant{Path: d, Access: access})
	}
	for _, p := range slices.Concat(systemReads, kernelReads, etcReads, o.Reads) {
		all = append(all, landlock.Grant{Path: p, Access: read})
	}
	if loader := loaderOf(o.Program); loader != "" {
		all = append(all, landlock.Grant{Path: loader, Access: landlock.ReadFile | landlock.Execute})
	}
	return append(all, workspaceGrants(o.Dir, o.Masks)...)
}

// workspaceGrants grants a workspace without what is hidden in it. Landlock has
// no exceptions, so a directory with something hidden below is granted by its
// entries; its names can be listed, and with them, because grants of
// directories go down, those in hidden directories.
func workspaceGrants(root string, masks []mask) []landlock.Grant {
	hidden, above := map[string]bool{}, map[string]bool{}
	for _, m := range masks {
		hidden[m.Path] = true
		for dir := filepath.Dir(m.Path); !above[dir]; dir = filepath.Dir(dir) {
			above[dir] = true
		}
	}
	var all []landlock.Grant
	var visit func(dir string)
	visit = func(dir string) {
		path := filepath.Join(root, dir)
		if !above[dir] {
			all = append(all, landlock.Grant{Path: path, Access: read})
			return
		}
		all = append(all, landlock.Grant{Path: path, Access: landlock.ReadDir})
		entries, err := os.ReadDir(path)
		if err != nil {
			return // what cannot be listed is not granted
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			switch {
			case hidden[name]:
			case e.IsDir():
				visit(name)
			case e.Type().IsRegular():
				all = append(all, landlock.Grant{Path: filepath.Join(root, name), Access: landlock.ReadFile})
			}
		}
	}
	visit(".")
	return all
}

// loaderOf is the program interpreter that an ELF file names, "" for a static
// one.
func loaderOf(program string) string {
	f, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > coord.MaxPath {
			continue
		}
		text, err := io.ReadAll(p.Open())
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(text), "\x00")
	}
	return ""
}
