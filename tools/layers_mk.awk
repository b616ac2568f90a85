# Writes make variables from layers.txt: FOLDERS, and per folder DEPS_x, the archives that its
# tests link (itself first, then everything below it, highest level first).
/^[a-z]/ {
    folder = substr($1, 1, length($1) - 1)
    folders[++n] = folder
    reach[folder, folder] = 1
    for (i = 2; i <= NF; i++)
        for (k = 1; k < n; k++)
            if (reach[$i, folders[k]]) reach[folder, folders[k]] = 1
}
END {
    printf "FOLDERS :="
    for (k = 1; k <= n; k++) printf " %s", folders[k]
    printf "\n"
    for (j = 1; j <= n; j++) {
        printf "DEPS_%s :=", folders[j]
        for (k = j; k >= 1; k--) if (reach[folders[j], folders[k]]) printf " %s", folders[k]
        printf "\n"
    }
}
