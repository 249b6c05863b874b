"""The third migration: what users wanted. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m003_goals(conn: sqlite3.Connection) -> None:
    """Goal texts, their vectors, clusterings and what was decided on them."""
    for statement in (
        "CREATE TABLE goal_config (config_hash TEXT PRIMARY KEY, model TEXT NOT NULL)"
        " STRICT, WITHOUT ROWID",
        # with a reason the text is what the model replied, and no goal
        """CREATE TABLE goal_text (
            config_hash TEXT NOT NULL REFERENCES goal_config (config_hash),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            text TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (config_hash, conversation_id),
            CHECK (text <> '' OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID""",
        # goal_config: of the texts, where a model wrote them; state: what was fitted
        """CREATE TABLE vector_config (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL UNIQUE,
            text TEXT NOT NULL CHECK (text IN ('first-user', 'all-user', 'summary')),
            goal_config TEXT REFERENCES goal_config (config_hash),
            embedder TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            state BLOB,
            CHECK ((text = 'summary') = (goal_config IS NOT NULL))
        ) STRICT""",
        # A row for each batch, so that a million vectors are read as fast as the file: ids int64, vectors float32,
        # both little-endian. first, last: the least and the greatest of the ids.
        """CREATE TABLE vector_block (
            id INTEGER PRIMARY KEY,
            config_id INTEGER NOT NULL REFERENCES vector_config (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            count INTEGER NOT NULL,
            ids BLOB NOT NULL,
            vectors BLOB NOT NULL,
            CHECK (count > 0 AND length(ids) = 8 * count)
        ) STRICT""",
        "CREATE INDEX vector_block_by_config ON vector_block (config_id, first, last, count)",
        """CREATE TABLE no_vector (
            config_id INTEGER NOT NULL REFERENCES vector_config (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            reason TEXT NOT NULL,
            PRIMARY KEY (config_id, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        # label_config, pair_config: whose labels and answers are shown
        """CREATE TABLE clustering (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            vector_config INTEGER NOT NULL REFERENCES vector_config (id),
            created_at TEXT NOT NULL,
            k INTEGER NOT NULL,
            seed INTEGER NOT NULL,
            conversations INTEGER NOT NULL,
            outliers INTEGER NOT NULL,
            no_text INTEGER NOT NULL,
            label_config TEXT,
            pair_config TEXT
        ) STRICT""",
        "CREATE INDEX clustering_by_config ON clustering (config_hash)",
        # words: JSON list; centre: mean of the members' unit vectors, float32; spread, reach: the mean and a high
        # percentile of the members' cosine distances to it
        """CREATE TABLE cluster (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            number INTEGER NOT NULL,
            size INTEGER NOT NULL CHECK (size > 0),
            spread REAL NOT NULL,
            reach REAL NOT NULL,
            words TEXT NOT NULL,
            centre BLOB NOT NULL,
            PRIMARY KEY (clustering_id, number)
        ) STRICT""",
        # reason: why there is no label
        """CREATE TABLE cluster_label (
            clustering_id INTEGER NOT NULL,
            number INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            label TEXT NOT NULL,
            description TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (clustering_id, number, config_hash),
            FOREIGN KEY (clustering_id, number) REFERENCES cluster (clustering_id, number),
            CHECK (label <> '' OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID""",
        # cluster: NULL for an outlier; second: the nearest other cluster
        """CREATE TABLE membership (
            clustering_id INTEGER NOT NULL,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            cluster INTEGER,
            distance REAL NOT NULL,
            second INTEGER,
            second_distance REAL,
            PRIMARY KEY (clustering_id, conversation_id),
            FOREIGN KEY (clustering_id, cluster) REFERENCES cluster (clustering_id, number)
        ) STRICT, WITHOUT ROWID""",
        # sides: a hash of the members of both, so that an answer is lost sight of when they change and found again
        # when they are as they were
        """CREATE TABLE pair_answer (
            config_hash TEXT NOT NULL,
            sides TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            likelihood_ratio REAL,
            yes REAL,
            yes_reversed REAL,
            reason TEXT NOT NULL,
            label TEXT NOT NULL,
            description TEXT NOT NULL,
            model TEXT NOT NULL,
            calls INTEGER NOT NULL,
            seconds REAL NOT NULL,
            PRIMARY KEY (config_hash, sides)
        ) STRICT, WITHOUT ROWID""",
        # Append only: undo and redo are rows that name the act they turn. sides, labels: JSON lists of group ids and
        # of what they were called; names: JSON list of [label, description] of what was made or renamed; evidence:
        # JSON, as it was shown; carried: the decision on an earlier clustering that it was taken over from.
        """CREATE TABLE decision (
            id INTEGER PRIMARY KEY,
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            act INTEGER NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('merge', 'apart', 'never', 'split', 'move', 'rename',
                'pin', 'unpin', 'undo', 'redo')),
            target INTEGER REFERENCES decision (id),
            sides TEXT NOT NULL,
            labels TEXT NOT NULL,
            names TEXT NOT NULL,
            author TEXT NOT NULL CHECK (author IN ('human', 'auto', 'llm')),
            model TEXT NOT NULL,
            probability REAL,
            evidence TEXT,
            given_at TEXT NOT NULL,
            carried INTEGER REFERENCES decision (id),
            CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL))
        ) STRICT""",
        "CREATE INDEX decision_by_clustering ON decision (clustering_id, act)",
        "CREATE INDEX decision_by_target ON decision (target) WHERE target IS NOT NULL",
        # the conversations that a decision names, int64: a part of a split, or what was moved
        """CREATE TABLE decision_part (
            decision_id INTEGER NOT NULL REFERENCES decision (id),
            part INTEGER NOT NULL,
            ids BLOB NOT NULL,
            PRIMARY KEY (decision_id, part)
        ) STRICT""",
        # decisions on earlier clusterings that this one gives no place, with why; a later one may
        """CREATE TABLE decision_kept (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            decision_id INTEGER NOT NULL REFERENCES decision (id),
            reason TEXT NOT NULL,
            PRIMARY KEY (clustering_id, decision_id)
        ) STRICT, WITHOUT ROWID""",
        # group_id: NULL for a novel one; after: the newest decision then; others: JSON list of [group id, score]
        """CREATE TABLE assignment (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            group_id TEXT,
            after INTEGER NOT NULL,
            score REAL NOT NULL,
            others TEXT NOT NULL,
            distance REAL NOT NULL,
            PRIMARY KEY (clustering_id, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        # ari: with the clustering itself; labels: int32 for each of its conversations in id order, -1 for outliers
        """CREATE TABLE stability (
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            config_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('seed', 'bootstrap')),
            repetition INTEGER NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            ari REAL NOT NULL,
            labels BLOB,
            PRIMARY KEY (clustering_id, config_hash, kind, repetition)
        ) STRICT""",
        """CREATE TABLE cluster_stability (
            clustering_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            kind TEXT NOT NULL,
            repetition INTEGER NOT NULL,
            number INTEGER NOT NULL,
            jaccard REAL NOT NULL,
            PRIMARY KEY (clustering_id, config_hash, kind, repetition, number),
            FOREIGN KEY (clustering_id, config_hash, kind, repetition)
                REFERENCES stability (clustering_id, config_hash, kind, repetition)
        ) STRICT, WITHOUT ROWID""",
    ):
        conn.execute(statement)
