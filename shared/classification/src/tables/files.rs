//! Programs that read or change files.

use super::{
    CREATE, DELETE, Grammar, LIST, MODE, Operands, Prints, Program, READ, SEARCHES, SHOWS, TEXT, UPDATE,
    Value, program,
};

const PATTERN: Value = Value::Pattern;
const GREP: Operands = Operands::First(TEXT, READ);

pub(super) const READING: &[Program] = &[
    program("ls|dir|vdir").flags("1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ").takes(&[("I ignore hide w width T", TEXT), ("sort time time-style color", TEXT)])
        .long("all almost-all human-readable recursive reverse inode size directory group-directories-first full-time color si classify")
        .each(LIST).prints(Prints::Paths).effect(SEARCHES),
    program("tree|exa|eza").flags("adfipshDFugrtCn1lT").takes(&[("L I P level filelimit ignore-glob", TEXT)]).long("dirsfirst noreport du prune git long all tree")
        .each(LIST).effect(SEARCHES),
    program("file").flags("bikLhNnprsSvz0").takes(&[("F separator", TEXT)]).long("brief mime mime-type mime-encoding dereference")
        .each(LIST).effect(SEARCHES),
    program("stat|readlink|realpath|namei|du|getfacl").flags("abcdefhiklLmnstxzS#")
        .takes(&[("c format printf max-depth d exclude threshold t block-size B", TEXT)])
        .long("brief mime-type mime human-readable summarize total canonicalize apparent-size all dereference si")
        .each(LIST).effect(SEARCHES),
    program("cat|tac|nl|rev|expand|unexpand|fold|fmt|column|paste|strings|od|hexdump|md5sum|sha1sum|sha256sum|sha512sum|shasum|b2sum|cksum|sum|zcat|bzcat|xzcat|bat|pr|comm|join|tsort|look|ul|more|base64|base32|iconv")
        .flags("abcdefghinprstuvwxzACEFTZ123#").takes(&[("l width tab-size", TEXT)])
        .long("number number-nonblank show-all decode check quiet status plain wrap").each(READ).prints(Prints::Input),
    program("less").flags("NSRFXinEIq#").each(READ).prints(Prints::Input),
    program("head|tail").flags("qvfFr#z").takes(&[("n c lines bytes s", TEXT)]).long("follow quiet verbose").each(READ).prints(Prints::Input),
    program("wc").flags("clmwL").long("lines words bytes chars max-line-length").each(READ),
    program("sort").flags("bdfghiMnrRsuVzcm").takes(&[("k t key field-separator sort", TEXT), ("o output", UPDATE)])
        .long("reverse unique numeric-sort human-numeric-sort version-sort ignore-case").each(READ).prints(Prints::Input),
    program("uniq").flags("cdiuDz").takes(&[("f s w", TEXT)]).long("count repeated unique ignore-case").operands(Operands::First(READ, UPDATE)).prints(Prints::Input),
    program("xxd").flags("bciprsu#").takes(&[("l s c g", TEXT)]).operands(Operands::First(READ, UPDATE)),
    program("cut").flags("sn").takes(&[("d f c b delimiter fields characters", TEXT)]).long("complement only-delimited").each(READ),
    program("tr").flags("cCdst").each(TEXT),
    program("diff|cmp|colordiff|sdiff").flags("abBcdeiNqrsuwylpt#").takes(&[("U C x exclude W", TEXT)])
        .long("brief recursive unified side-by-side ignore-all-space color ignore-case").each(READ),
    program("grep|egrep|fgrep|zgrep|rg|ag|ack").flags("abcEFGhHilLnoPqrRsvwxzZSuNU#")
        .takes(&[
            ("e regexp", PATTERN), ("f file", READ), ("A B C m d D after-context before-context context max-count", TEXT),
            ("include exclude exclude-dir color colour g glob t type T type-not", TEXT),
        ])
        .long("ignore-case recursive line-number files-with-matches files-without-match count invert-match word-regexp only-matching quiet color extended-regexp fixed-strings hidden no-ignore files heading no-heading")
        .operands(GREP).prints(Prints::Input),
    program("jq|yq").flags("rcSeMCsnRjai").takes(&[("indent", TEXT)])
        .long("raw-output compact-output sort-keys slurp null-input tab exit-status join-output inplace").grammar(Grammar::Jq),
    program("find").grammar(Grammar::Find).effect(SEARCHES),
    program("fd|fdfind").flags("HIsigaLp0l1").takes(&[("e t d E extension type max-depth exclude", TEXT)]).long("hidden no-ignore")
        .operands(Operands::First(TEXT, LIST)).prints(Prints::Paths).effect(SEARCHES),
    program("awk|gawk|mawk|nawk").takes(&[("F v field-separator assign", TEXT)]).stops_at_operand().grammar(Grammar::Awk),
    program("sed|gsed").flags("nErszu").takes(&[("e expression", PATTERN), ("f file", Value::Code), ("l", TEXT)])
        .flags("nErszui").long("quiet silent in-place regexp-extended null-data").grammar(Grammar::Sed).prints(Prints::Input),
    program("mktemp").flags("dut").takes(&[("p tmpdir", CREATE)]).long("directory dry-run").each(CREATE).effect(SHOWS),
    program("cloc|tokei|scc|shuf").flags("e").takes(&[("n i", TEXT)]).each(READ),
];

pub(super) const CHANGING: &[Program] = &[
    program("touch|mkdir|truncate|mkfifo|fallocate")
        .flags("acmpvf")
        .takes(&[("m mode", MODE), ("d t s size date l", TEXT), ("r reference", LIST)])
        .long("parents verbose no-create")
        .each(CREATE),
    program("rm|rmdir|unlink|shred")
        .flags("dfiIrRvpuzn")
        .takes(&[("n", TEXT)])
        .long("recursive force verbose dir interactive parents one-file-system")
        .each(DELETE),
    program("cp|install")
        .flags("abdfiHlLnpPrRsTuvxD")
        .takes(&[("t target-directory", UPDATE), ("m mode", MODE), ("o g S", TEXT)])
        .long("archive recursive force no-clobber update verbose parents preserve interactive backup")
        .operands(Operands::LastIs(READ, UPDATE)),
    program("mv")
        .flags("bfinuvT")
        .takes(&[("t target-directory", UPDATE)])
        .long("force no-clobber update verbose interactive backup")
        .each(UPDATE),
    program("ln")
        .flags("sfnvrT")
        .takes(&[("t target-directory", UPDATE)])
        .long("symbolic force relative verbose")
        .operands(Operands::LastIs(Value::Copied, CREATE)),
    program("tee").flags("ai").long("append").each(UPDATE),
    program("chmod").flags("Rvcf").long("recursive verbose").operands(Operands::First(MODE, UPDATE)),
    program("chown|chgrp").flags("Rvcf").long("recursive verbose").operands(Operands::First(TEXT, UPDATE)),
    program("tar|bsdtar")
        .flags("cxtvzjJaOprukhwS")
        .letters_first()
        .takes(&[
            ("f file", UPDATE),
            ("C directory", UPDATE),
            ("X T", READ),
            ("exclude strip-components", TEXT),
        ])
        .long("create extract list verbose gzip bzip2 xz zstd auto-compress keep-old-files wildcards")
        .each(READ),
    program("zip").flags("rqvjuy9#").takes(&[("x i", TEXT)]).operands(Operands::First(UPDATE, READ)),
    program("unzip")
        .flags("loqvntjp")
        .takes(&[("d", UPDATE), ("x", TEXT)])
        .operands(Operands::First(READ, TEXT))
        .prints(Prints::Data),
    program("gzip|gunzip|bzip2|bunzip2|xz|unxz|zstd")
        .flags("cdfkvqtlr#")
        .long("keep decompress stdout")
        .each(Value::Copied),
    program("dd").any_option().each(Value::Code),
    program("split|csplit").flags("d#").takes(&[("l b n a", TEXT)]).operands(Operands::First(READ, CREATE)),
    program("patch").flags("NREs#").takes(&[("p", TEXT), ("i", READ), ("d", UPDATE)]).each(UPDATE),
];
